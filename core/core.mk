# core.mk - core/: sources of this folder.
