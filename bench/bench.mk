# bench.mk - bench/: sources of this folder.
