# build.mk - tests of the build itself and of the tree: exported symbols, installation, who may include whom, what documents name.
BUILD_TESTS = \
	tests/build/test_abi.sh \
	tests/build/test_assertions.sh \
	tests/build/test_binary.sh \
	tests/build/test_calls.sh \
	tests/build/test_cmake.sh \
	tests/build/test_dead.sh \
	tests/build/test_dev.sh \
	tests/build/test_docs.sh \
	tests/build/test_format.sh \
	tests/build/test_globals.sh \
	tests/build/test_headers.sh \
	tests/build/test_install.sh \
	tests/build/test_layers.sh \
	tests/build/test_lengths.sh \
	tests/build/test_libraries.sh \
	tests/build/test_man.sh \
	tests/build/test_recipes.sh \
	tests/build/test_reference.sh \
	tests/build/test_release.sh \
	tests/build/test_static.sh \
	tests/build/test_symbols.sh \
	tests/build/test_tarball.sh \
	tests/build/test_warnings.sh \
	tests/tools/test_beside_llama.sh \
	tests/tools/test_context_chart.sh \
	tests/tools/test_device_report.sh \
	tests/tools/test_equal_bytes.sh \
	tests/tools/test_fastkvzip_file.sh \
	tests/tools/test_gpu_check.sh \
	tests/tools/test_ranks_plan.sh
SHELL_TESTS += $(BUILD_TESTS)
EXTRA_DIST += $(BUILD_TESTS) tests/build/install_use.cc tests/build/comments.awk tests/build/commands.awk tests/build/recipes.py tests/tools/llama_cpp.py \
    tests/tools/openvino.py tests/tools/openvino_genai.py

# Prints hashes of everything; also built for other machines by tests/cross/run.sh.
noinst_PROGRAMS += tests/cross/driver
tests_cross_driver_SOURCES = tests/cross/main.c
tests_cross_driver_LDADD = libkvc.la $(KVC_LIBS)
EXTRA_DIST += tests/cross/cross.make tests/cross/lib.sh tests/cross/run.sh tests/cross/compilers.sh tests/cross/heads.tsv
