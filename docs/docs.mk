# docs.mk - manual pages, one `dist_man_MANS += docs/man/<page>.1` each; they are installed.
