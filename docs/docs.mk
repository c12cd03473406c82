# docs.mk - manual pages and shell completions, which `make` writes with the new program (tools/manual.sh), and the parts
# of docs/reference that come from the program's tables, which are tracked: `make pages` writes them, and a test fails
# when one is old or missing.
noinst_DATA = manual.stamp
CLEANFILES += manual.stamp
manual.stamp: kvcull$(EXEEXT) tools/manual.sh tools/completions.sh
	$(AM_V_GEN)$(SHELL) $(srcdir)/tools/manual.sh ./kvcull$(EXEEXT) $(srcdir) . && touch $@

# A wildcard, because a cross build from a checkout has no pages. `make install` expands it after manual.stamp is made.
man1_MANS = $(wildcard docs/man/*.1)
man7_MANS = $(wildcard docs/man/*.7)
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = $(wildcard docs/completions/bash/kvcull)
zshcompletiondir = $(datadir)/zsh/site-functions
zshcompletion_DATA = $(wildcard docs/completions/zsh/_kvcull)
fishcompletiondir = $(datadir)/fish/vendor_completions.d
fishcompletion_DATA = $(wildcard docs/completions/fish/kvcull.fish)

.PHONY: pages
pages: kvcull$(EXEEXT)
	$(SHELL) $(srcdir)/tools/pages.sh ./kvcull$(EXEEXT) $(srcdir) $(srcdir)

# The reference of the C interface, made from the public headers by doxygen: reference/html/index.html in the build folder.
.PHONY: reference
reference:
	$(SHELL) $(srcdir)/tools/reference.sh $(srcdir) reference

# A build in the source folder keeps the pages: those of a tarball are needed where the program does not run.
mostlyclean-local:
	rm -rf reference
	[ '$(srcdir)' = . ] || rm -rf docs/man docs/completions
