# docs.mk - docs/: sources of this folder.
