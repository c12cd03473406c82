# policies.mk - policies/: sources of this folder.
