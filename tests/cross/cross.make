# cross.make - builds the driver of this folder for another machine with nothing but its compiler and libc:
#   make -f tests/cross/cross.make CC=aarch64-linux-gnu-gcc ARCH=aarch64 OUT=build/cross/aarch64
# or for this one with another compiler, standard or flags (STD, FLAGS; WERROR=-Werror: warnings are errors).
# Run in the top source folder. Every source file that includes no library's header goes into an archive; the linker
# takes from it what the driver needs. A libc-only file that needs a library's file therefore fails to link here.

HOST_CC ?= cc
FLAGS ?= -O2 -g
STD ?= gnu11
AR ?= ar
OUT ?= build/cross/$(ARCH)
XXHASH ?= /usr/include/xxhash.h

all := $(filter-out %avx2.c %avx2vnni.c %avx512.c %avx512vnni.c %amx.c %neon.c %neondotprod.c %neoni8mm.c, \
	$(wildcard core/*/*.c policies/*.c models/*.c models/*/*.c backends/*.c backends/cpu/*.c backends/cpu/ref/*.c \
	backends/cpu/simd/*.c backends/cpu/simd/*/*.c))
with_libraries := $(shell for file in $(all); do \
	$(HOST_CC) -M -I. -Iinclude -D_GNU_SOURCE $$file 2>/dev/null | grep -qE 'jansson|pcre2|utf8proc' && echo $$file; done)
sources := $(filter-out $(with_libraries),$(all))
ifeq ($(ARCH),aarch64)
sources += $(wildcard backends/cpu/simd/*neon.c backends/cpu/simd/*/*neon.c)
PATHS = -DKVC_NEON -DKVC_NEON_DOTPROD
endif
objects := $(sources:%.c=$(OUT)/%.o)
ifeq ($(ARCH),aarch64)
neondotprod := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*/*neondotprod.c))
neoni8mm := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*/*neoni8mm.c))
objects += $(neondotprod) $(neoni8mm)
$(neondotprod): PATHS += -march=armv8.2-a+dotprod
$(neoni8mm): PATHS += -march=armv8.2-a+dotprod+i8mm
endif
ifeq ($(ARCH),x86_64)
ref_fma := $(patsubst %.c,$(OUT)/fma/%.o,$(wildcard backends/cpu/ref/*.c))
avx2 := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*avx2.c backends/cpu/simd/*/*avx2.c))
avx512 := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*avx512.c backends/cpu/simd/*/*avx512.c))
avx512vnni := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*/*avx512vnni.c))
avx2vnni := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*/*avx2vnni.c))
amx := $(patsubst %.c,$(OUT)/%.o,$(wildcard backends/cpu/simd/*/*amx.c))
objects += $(ref_fma) $(avx2) $(avx2vnni) $(avx512) $(avx512vnni) $(amx)
PATHS = -DKVC_X86_SIMD -DKVC_X86_AMX
$(ref_fma): PATHS += -DKVC_REF_FMA -mfma -mavx2
$(avx2) $(avx2vnni): PATHS += -mavx2 -mfma -mf16c
$(avx2vnni): PATHS += -mavxvnni
$(avx512) $(avx512vnni) $(amx): PATHS += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
$(avx512vnni) $(amx): PATHS += -mavx512vnni
endif

# The same as configure puts after the user's flags, where the compiler takes it.
exact_flags := $(shell sed -n 's/^KVC_TRY_FLAG(\[EXACT_CFLAGS\], \[\(.*\)\])/\1/p' configure.ac)
EXACT := $(foreach flag,$(exact_flags),$(shell \
	$(CC) -Werror $(flag) -x c -c -o /dev/null /dev/null 2>/dev/null && echo $(flag)))
compile = $(CC) -std=$(STD) -pthread -D_GNU_SOURCE -I. -Iinclude -I$(OUT) -I$(OUT)/include -Wall -Wextra $(WERROR) $(PATHS) \
	$(FLAGS) $(EXACT)

# -Ofast would link code that makes denormals zero.
$(OUT)/driver: $(OUT)/tests/cross/main.o $(OUT)/libkvc.a
	$(CC) $(filter-out -Ofast -ffast-math,$(FLAGS)) $(EXACT) -static -pthread -o $@ $^ -lm

$(OUT)/libkvc.a: $(objects)
	rm -f $@ && $(AR) rcs $@ $^

$(OUT)/%.o: %.c | $(OUT)/include/xxhash.h
	@mkdir -p $(@D)
	$(compile) -MMD -MP -c -o $@ $<

$(OUT)/fma/%.o: %.c | $(OUT)/include/xxhash.h
	@mkdir -p $(@D)
	$(compile) -MMD -MP -c -o $@ $<

$(OUT)/policies/list.o: $(OUT)/policies/list.def
$(OUT)/policies/list.def: policies/policies.mk tools/policy_list.sh
	@mkdir -p $(@D)
	sh tools/policy_list.sh . >$@.tmp && mv $@.tmp $@

# One header, no library: everything in it is inline.
$(OUT)/include/xxhash.h: $(XXHASH)
	@mkdir -p $(@D)
	cp $(XXHASH) $(dir $(XXHASH))xxh3.h $(@D)/ 2>/dev/null || cp $(XXHASH) $(@D)/

-include $(objects:.o=.d) $(OUT)/tests/cross/main.d
