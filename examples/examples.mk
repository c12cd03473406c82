# examples.mk - examples/: sources of this folder.
