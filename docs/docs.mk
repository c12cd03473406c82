# docs.mk - manual pages, the methods' pages, and the tables of families, weight types and request fields. tools/manual.sh
# makes all of them from the program's own tables, and they are committed. `make manual` writes them again; a test fails
# when one is old or missing. Every manual page in docs/man is installed.
manual_pages = $(patsubst $(srcdir)/%,%,$(sort $(wildcard $(srcdir)/docs/man/*.$(1))))
dist_man1_MANS = $(call manual_pages,1)
dist_man7_MANS = $(call manual_pages,7)

.PHONY: manual
manual: kvcull
	$(SHELL) $(srcdir)/tools/manual.sh ./kvcull $(srcdir) $(srcdir)

# The reference of the C interface, made from the public headers by doxygen: reference/html/index.html in the build folder.
.PHONY: reference
reference:
	$(SHELL) $(srcdir)/tools/reference.sh $(srcdir) reference

mostlyclean-local:
	rm -rf reference

# What shells complete, made by tools/completions.sh from the same tables and by the same `make manual`.
bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = docs/completions/bash/kvcull
zshcompletiondir = $(datadir)/zsh/site-functions
dist_zshcompletion_DATA = docs/completions/zsh/_kvcull
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_fishcompletion_DATA = docs/completions/fish/kvcull.fish
