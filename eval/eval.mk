# eval.mk - eval/: sources of this folder.
