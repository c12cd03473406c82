# build.mk - tests of the build itself: exported symbols, installation, who may include whom.
SHELL_TESTS += tests/test_gpu_check.sh tests/test_device_report.sh tests/test_symbols.sh tests/test_globals.sh tests/test_format.sh tests/test_layers.sh tests/test_install.sh tests/test_man.sh tests/test_warnings.sh
EXTRA_DIST += tests/test_gpu_check.sh tests/test_device_report.sh tests/test_symbols.sh tests/test_globals.sh tests/test_format.sh tests/test_layers.sh tests/test_install.sh tests/test_man.sh tests/test_warnings.sh

# Prints hashes of everything; also built for other machines by tests/cross/run.sh.
noinst_PROGRAMS += tests/cross/driver
tests_cross_driver_SOURCES = tests/cross/main.c
tests_cross_driver_LDADD = libkvc.la $(KVC_LIBS)
EXTRA_DIST += tests/cross/cross.make tests/cross/lib.sh tests/cross/run.sh tests/cross/compilers.sh tests/cross/heads.tsv tests/install_use.cc \
	tests/oclgrind/run.sh tests/oclgrind/host_writes.c
