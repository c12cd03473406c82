# packaging.mk - what package managers and build systems of others need (docs/how-to/packages.md), the dump of the library's
# interface that a release stores, and `make release`.
cmakedir = $(libdir)/cmake/kvcull
dist_cmake_DATA = packaging/cmake/kvcull-config.cmake
nodist_cmake_DATA = packaging/cmake/kvcull-config-version.cmake

# Stores the library's interface as abidw describes it, for a release; tests/build/test_abi.sh compares later libraries with it.
.PHONY: abi release
abi: libkvcull.la
	$(SHELL) $(srcdir)/tools/abi.sh dump .libs/libkvcull.so $(srcdir)

# The tarball of a release, checksums and notes in release/; RELEASE_FLAGS=--tag also sets the tag.
release:
	$(MAKE) $(AM_MAKEFLAGS) distdir
	$(SHELL) $(srcdir)/tools/release.sh $(RELEASE_FLAGS) $(distdir) $(srcdir) release; status=$$?; \
	    chmod -R u+w $(distdir); rm -rf $(distdir); exit $$status

EXTRA_DIST += \
	packaging/apptainer/kvcull.def \
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
