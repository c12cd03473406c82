# cli.mk - cli/: sources of this folder.
