# cpu.mk - backends/cpu/: the shared device, the reference operations, and one convenience library per CPU path,
# because each path is compiled with its own flags.

# The definition of every operation; compiled twice, the second time for CPUs with fused multiply-add.
KVC_REF_SOURCES = backends/cpu/ref/ref.h backends/cpu/ref/table.c backends/cpu/ref/rows.c backends/cpu/ref/widen.c \
	backends/cpu/ref/linear.c backends/cpu/ref/rope.c backends/cpu/ref/entry.c backends/cpu/ref/cache.c \
	backends/cpu/ref/attention.c backends/cpu/ref/mass.c backends/cpu/ref/weights.c backends/cpu/ref/select.c \
	backends/cpu/ref/pages.c backends/cpu/ref/choose.c
libkvc_la_SOURCES += backends/cpu/cpu.c backends/cpu/fast.c backends/cpu/memory.c backends/cpu/areas.c \
	backends/cpu/arena.c

libkvc_la_SOURCES += backends/cpu/cpu.h backends/cpu/turns.h backends/cpu/simd/simd.h backends/cpu/simd/lanes_avx512.h \
	backends/cpu/simd/lanes_avx2.h backends/cpu/simd/lanes_neon.h
libkvc_la_SOURCES += backends/cpu/simd/linear.c backends/cpu/simd/linear.h backends/cpu/simd/linear_template.h \
	backends/cpu/simd/linear_widened.h backends/cpu/simd/linear_one_row.h backends/cpu/simd/linear_pipelined.h \
	backends/cpu/simd/linear_few.h backends/cpu/simd/linear_pack.h backends/cpu/simd/linear_tile.h \
	backends/cpu/simd/unroll.h backends/cpu/simd/widen.h
libkvc_la_SOURCES += backends/cpu/simd/entries.h backends/cpu/simd/softmax_tile.h backends/cpu/simd/attention_few.h \
	backends/cpu/simd/attention_many.h backends/cpu/simd/attention.h \
	backends/cpu/simd/carve.h backends/cpu/simd/rows.h backends/cpu/simd/weight_tiles.h backends/cpu/simd/weights.h backends/cpu/simd/logarithm.h \
	backends/cpu/simd/vector.h backends/cpu/simd/mass.h backends/cpu/simd/moments.h backends/cpu/simd/ring_fuse.h \
	backends/cpu/simd/select.h backends/cpu/simd/lists.h backends/cpu/simd/score_memo.h \
	backends/cpu/simd/columns.h backends/cpu/simd/keep_ring.h backends/cpu/simd/noise_table.h backends/cpu/simd/turn_keys.h backends/cpu/simd/channels.h backends/cpu/simd/pages.h \
	backends/cpu/simd/choose.h backends/cpu/simd/choose_job.h backends/cpu/simd/choose_reads.h \
	backends/cpu/simd/choose_scores.h backends/cpu/simd/choose_weights.h
libkvc_la_SOURCES += $(KVC_REF_SOURCES)

if HAVE_X86_SIMD
noinst_LTLIBRARIES += libcpu_ref_fma.la libcpu_avx2.la libcpu_avx512.la
libkvc_la_LIBADD += libcpu_ref_fma.la libcpu_avx2.la libcpu_avx512.la

libcpu_ref_fma_la_SOURCES = $(KVC_REF_SOURCES)
libcpu_ref_fma_la_CPPFLAGS = $(AM_CPPFLAGS) -DKVC_REF_FMA
libcpu_ref_fma_la_CFLAGS = $(AM_CFLAGS) -mfma -mavx2

libcpu_avx2_la_SOURCES = backends/cpu/simd/avx2.c backends/cpu/simd/linear_avx2.c backends/cpu/simd/vector_avx2.c
libcpu_avx2_la_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c

libcpu_avx512_la_SOURCES = backends/cpu/simd/avx512.c backends/cpu/simd/linear_avx512.c backends/cpu/simd/vector_avx512.c
libcpu_avx512_la_CFLAGS = $(AM_CFLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
endif

if HAVE_NEON
noinst_LTLIBRARIES += libcpu_neon.la
libkvc_la_LIBADD += libcpu_neon.la
libcpu_neon_la_SOURCES = backends/cpu/simd/neon.c backends/cpu/simd/linear_neon.c backends/cpu/simd/vector_neon.c
libcpu_neon_la_CFLAGS = $(AM_CFLAGS)
endif
