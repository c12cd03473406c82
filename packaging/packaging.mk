# packaging.mk - what package managers and build systems of others need (docs/how-to/packages.md), the dump of the library's
# interface that a release stores, and `make release`.
cmakedir = $(libdir)/cmake/kvcull
dist_cmake_DATA = packaging/cmake/kvcull-config.cmake
nodist_cmake_DATA = packaging/cmake/kvcull-config-version.cmake

# Stores the library's interface as abidw describes it, for a release; tests/build/test_abi.sh compares later libraries with it.
.PHONY: abi binary release
abi: libkvcull.la
	$(SHELL) $(srcdir)/tools/abi.sh dump .libs/libkvcull.so $(srcdir)

# The source and binary files of a release, checksums and notes in release/. RELEASE_FLAGS=--tag also sets the tag;
# RELEASE_FLAGS=--source leaves out the binary files, which need a network.
release:
	$(MAKE) $(AM_MAKEFLAGS) distdir
	$(SHELL) $(srcdir)/tools/release.sh $(RELEASE_FLAGS) $(distdir) $(srcdir) release; status=$$?; \
	    chmod -R u+w $(distdir); rm -rf $(distdir); exit $$status

# The binary files of a release in release/; BINARY_FLAGS='--only x86_64' makes some of them. What was built stays in binary/.
binary:
	$(MAKE) $(AM_MAKEFLAGS) distdir
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH-$$(git -C $(srcdir) log -1 --format=%ct 2>/dev/null)} \
	    $(SHELL) $(srcdir)/tools/binary.sh $(BINARY_FLAGS) $(distdir) release; status=$$?; \
	    chmod -R u+w $(distdir); rm -rf $(distdir); exit $$status

EXTRA_DIST += \
	packaging/apptainer/kvcull.def \
	packaging/binary/libraries.sh \
	packaging/binary/python.txt \
	packaging/binary/sources.tsv \
	packaging/debian/changelog \
	packaging/debian/control \
	packaging/debian/copyright \
	packaging/debian/kvcull.install \
	packaging/debian/kvcull.lintian-overrides \
	packaging/debian/libkvcull-dev.examples \
	packaging/debian/libkvcull-dev.install \
	packaging/debian/libkvcull-dev.lintian-overrides \
	packaging/debian/libkvcull0.install \
	packaging/debian/libkvcull0.lintian-overrides \
	packaging/debian/not-installed \
	packaging/debian/python3-kvcull.examples \
	packaging/debian/python3-kvcull.install \
	packaging/debian/python3-kvcull.lintian-overrides \
	packaging/debian/rules \
	packaging/debian/source.sh \
	packaging/debian/source/format \
	packaging/docker/Dockerfile \
	packaging/easybuild/kvcull.eb \
	packaging/reframe/kvcull_checks.py \
	packaging/spack/kvcull/package.py \
	SECURITY.md CITATION.cff
EXTRA_DIST += $(wildcard $(srcdir)/packaging/abi/*.abi)
