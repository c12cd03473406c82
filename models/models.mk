# models.mk - models/: sources of this folder.
