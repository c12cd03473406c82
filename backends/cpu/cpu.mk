# cpu.mk - backends/cpu/: the CPU device, the reference operations, and the SIMD code. Each instruction set is a
# convenience library of its own, because it is compiled with its own flags.

# The reference operations. They are compiled twice, the second time for CPUs with fused multiply-add.
KVC_REF_SOURCES = backends/cpu/ref/ref.h backends/cpu/ref/table.c backends/cpu/ref/rows.c backends/cpu/ref/dequantize.c \
	backends/cpu/ref/linear.c backends/cpu/ref/experts.c backends/cpu/ref/delta.c backends/cpu/ref/int8.c backends/cpu/ref/int16.c backends/cpu/ref/entry.c backends/cpu/ref/cache.c \
	backends/cpu/ref/attention.c backends/cpu/ref/scores.c backends/cpu/ref/entries.c backends/cpu/ref/expected.c backends/cpu/ref/series.c backends/cpu/ref/leverage.c backends/cpu/ref/merge.c backends/cpu/ref/channels.c backends/cpu/ref/keep.c \
	backends/cpu/ref/pages.c backends/cpu/ref/select.c
libkvc_la_SOURCES += backends/cpu/cpu.c backends/cpu/paths.c backends/cpu/fast.c backends/cpu/memory.c backends/cpu/pack.c backends/cpu/areas.c \
	backends/cpu/arena.c

libkvc_la_SOURCES += backends/cpu/cpu.h backends/cpu/ref/pairs.h backends/cpu/stealing.h backends/cpu/simd/simd.h backends/cpu/simd/lanes/avx512.h \
	backends/cpu/simd/lanes/avx2.h backends/cpu/simd/lanes/neon.h backends/cpu/simd/lanes/lanes.h
libkvc_la_SOURCES += backends/cpu/simd/linear/linear.c backends/cpu/simd/linear/experts.c backends/cpu/simd/linear/linear.h backends/cpu/simd/linear/template.h \
	backends/cpu/simd/linear/dequantized.h backends/cpu/simd/linear/gemv.h backends/cpu/simd/linear/gemv_pipelined.h \
	backends/cpu/simd/linear/small_batch.h backends/cpu/simd/linear/pack.h backends/cpu/simd/linear/gemm.h \
	backends/cpu/simd/lanes/unroll.h backends/cpu/simd/linear/dequantize.h backends/cpu/simd/linear/dequantize_fp8.h \
	backends/cpu/simd/linear/dequantize_nibbles.h backends/cpu/simd/linear/scales.h backends/cpu/simd/linear/sizes.h
libkvc_la_SOURCES += backends/cpu/simd/int8/int8.c backends/cpu/simd/int8/int8.h backends/cpu/simd/int8/template.h \
	backends/cpu/simd/int16/template.h backends/cpu/simd/int16/pack.h backends/cpu/simd/int16/pack_neon.h backends/cpu/simd/int16/weights.h backends/cpu/simd/int16/gemv.h backends/cpu/simd/int16/gemm.h backends/cpu/simd/int16/neon.h \
	backends/cpu/simd/int8/unpack.h backends/cpu/simd/int8/quantize.h backends/cpu/simd/int8/gemv.h \
	backends/cpu/simd/int8/small_batch.h backends/cpu/simd/int8/prepare.h \
	backends/cpu/simd/int8/gemm.h backends/cpu/simd/int8/vectors_256.h backends/cpu/simd/int8/vectors_512.h \
	backends/cpu/simd/int8/vectors.h backends/cpu/simd/int8/parameters.h backends/cpu/simd/int8/types.h backends/cpu/simd/int8/tiles.h backends/cpu/simd/int8/panel.h \
	backends/cpu/simd/int8/amx/parameters.h backends/cpu/simd/int8/amx/rows.h backends/cpu/simd/int8/amx/gemm.h backends/cpu/simd/int8/amx/int16.h backends/cpu/simd/int8/amx/template.h \
	backends/cpu/simd/int8/neon/template.h backends/cpu/simd/int8/neon/unpack.h backends/cpu/simd/int8/neon/quantize.h \
	backends/cpu/simd/int8/neon/gemv.h backends/cpu/simd/int8/neon/gemm.h backends/cpu/simd/int8/neon/four_outputs.h \
	backends/cpu/simd/int8/neon/parameters.h backends/cpu/simd/int8/neon/products.h
libkvc_la_SOURCES += backends/cpu/simd/attention/entries.h backends/cpu/simd/attention/softmax_tile.h backends/cpu/simd/attention/small_batch.h \
	backends/cpu/simd/attention/dots.h \
	backends/cpu/simd/attention/gemm.h backends/cpu/simd/attention/integer_tile.h backends/cpu/simd/attention/attention.h backends/cpu/simd/attention/task.h \
	backends/cpu/simd/integers/integers.h backends/cpu/simd/integers/plain.c backends/cpu/simd/integers/kernels_256.h \
	backends/cpu/simd/integers/kernels_neon.h backends/cpu/simd/integers/pack_512.h backends/cpu/simd/integers/weights_512.h \
	backends/cpu/simd/bump.h backends/cpu/simd/rows.h backends/cpu/simd/experts.h backends/cpu/simd/delta.h backends/cpu/simd/scores/probability_tiles.h backends/cpu/simd/scores/rings.h backends/cpu/simd/lanes/logarithm.h \
	backends/cpu/simd/vector.h backends/cpu/simd/scores/mass.h backends/cpu/simd/scores/entries.h backends/cpu/simd/scores/expected.h backends/cpu/simd/scores/series.h backends/cpu/simd/scores/leverage.h backends/cpu/simd/scores/moments.h backends/cpu/simd/scores/ring_fuse.h \
	backends/cpu/simd/keep.h backends/cpu/simd/cache.h backends/cpu/simd/scores/score_memo.h \
	backends/cpu/simd/scores/columns.h backends/cpu/simd/keep_ring.h backends/cpu/simd/scores/noise_table.h backends/cpu/simd/rotate_keys.h backends/cpu/simd/select/channels.h backends/cpu/simd/pages.h \
	backends/cpu/simd/select/select.h backends/cpu/simd/select/select_job.h backends/cpu/simd/select/select_reads.h \
	backends/cpu/simd/select/select_scores.h backends/cpu/simd/select/select_probabilities.h
libkvc_la_SOURCES += $(KVC_REF_SOURCES)

if HAVE_X86_SIMD
noinst_LTLIBRARIES += libcpu_ref_fma.la libcpu_avx2.la libcpu_avx2vnni.la libcpu_avx512.la \
	libcpu_avx512vnni.la
libkvc_la_LIBADD += libcpu_ref_fma.la libcpu_avx2.la libcpu_avx2vnni.la libcpu_avx512.la \
	libcpu_avx512vnni.la

libcpu_ref_fma_la_SOURCES = $(KVC_REF_SOURCES)
libcpu_ref_fma_la_CPPFLAGS = $(AM_CPPFLAGS) -DKVC_REF_FMA
libcpu_ref_fma_la_CFLAGS = $(AM_CFLAGS) $(REF_CFLAGS) -mfma -mavx2

libcpu_avx2_la_SOURCES = backends/cpu/simd/linear/avx2.c backends/cpu/simd/int8/avx2.c backends/cpu/simd/integers/avx2.c \
	backends/cpu/simd/vector_avx2.c
libcpu_avx2_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c

libcpu_avx2vnni_la_SOURCES = backends/cpu/simd/int8/avx2vnni.c backends/cpu/simd/integers/avx2vnni.c
libcpu_avx2vnni_la_CFLAGS = $(libcpu_avx2_la_CFLAGS) $(AVX_VNNI_CFLAGS)

libcpu_avx512_la_SOURCES = backends/cpu/simd/linear/avx512.c backends/cpu/simd/int8/avx512.c backends/cpu/simd/vector_avx512.c
libcpu_avx512_la_CFLAGS = $(AM_CFLAGS) $(WIDE_SANITIZE_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c

libcpu_avx512vnni_la_SOURCES = backends/cpu/simd/int8/avx512vnni.c backends/cpu/simd/integers/avx512vnni.c
libcpu_avx512vnni_la_CFLAGS = $(libcpu_avx512_la_CFLAGS) -mavx512vnni
endif

if HAVE_X86_AMX
noinst_LTLIBRARIES += libcpu_amx.la
libkvc_la_LIBADD += libcpu_amx.la
libcpu_amx_la_SOURCES = backends/cpu/simd/int8/amx.c backends/cpu/simd/integers/amx.c
libcpu_amx_la_CFLAGS = $(libcpu_avx512vnni_la_CFLAGS)
endif

if HAVE_NEON
noinst_LTLIBRARIES += libcpu_neon.la
libkvc_la_LIBADD += libcpu_neon.la
libcpu_neon_la_SOURCES = backends/cpu/simd/linear/neon.c backends/cpu/simd/int8/neon.c backends/cpu/simd/integers/neon.c \
	backends/cpu/simd/vector_neon.c
libcpu_neon_la_CFLAGS = $(AM_CFLAGS)
endif

if HAVE_NEON_DOTPROD
noinst_LTLIBRARIES += libcpu_neondotprod.la libcpu_neoni8mm.la
libkvc_la_LIBADD += libcpu_neondotprod.la libcpu_neoni8mm.la
libcpu_neondotprod_la_SOURCES = backends/cpu/simd/int8/neondotprod.c backends/cpu/simd/integers/neondotprod.c
libcpu_neondotprod_la_CFLAGS = $(AM_CFLAGS) -march=armv8.2-a+dotprod
libcpu_neoni8mm_la_SOURCES = backends/cpu/simd/int8/neoni8mm.c
libcpu_neoni8mm_la_CFLAGS = $(AM_CFLAGS) -march=armv8.2-a+dotprod+i8mm
endif
