# cross.make - builds the driver of this folder for another machine with nothing but its compiler and libc:
#   make -f tests/cross/cross.make CC=aarch64-linux-gnu-gcc ARCH=aarch64 OUT=build/cross/aarch64
# Run in the top source folder. Every source file that includes no library's header goes into an archive; the linker
# takes from it what the driver needs. A libc-only file that needs a library's file therefore fails to link here.

HOST_CC ?= cc
FLAGS ?= -O2 -g
OUT ?= build/cross/$(ARCH)
XXHASH ?= /usr/include/xxhash.h

all := $(filter-out %avx2.c %avx512.c %neon.c, \
	$(wildcard core/*.c policies/*.c models/*.c backends/cpu/*.c backends/cpu/ref/*.c backends/cpu/simd/*.c))
with_libraries := $(shell for file in $(all); do \
	$(HOST_CC) -M -I. -Iinclude -D_GNU_SOURCE $$file 2>/dev/null | grep -qE 'jansson|pcre2|utf8proc' && echo $$file; done)
sources := $(filter-out $(with_libraries),$(all))
ifeq ($(ARCH),aarch64)
sources += $(wildcard backends/cpu/simd/*neon.c)
FLAGS += -DKVC_NEON
endif
objects := $(sources:%.c=$(OUT)/%.o)

# The same as configure puts behind the user's flags.
EXACT = -ffp-contract=off -fno-fast-math
compile = $(CC) -std=gnu11 -pthread -D_GNU_SOURCE -I. -Iinclude -I$(OUT)/include -Wall -Wextra -Werror $(FLAGS) $(EXACT)

$(OUT)/driver: $(OUT)/tests/cross/main.o $(OUT)/libkvc.a
	$(CC) -static -pthread -o $@ $^ -lm

$(OUT)/libkvc.a: $(objects)
	rm -f $@ && ar rcs $@ $^

$(OUT)/%.o: %.c | $(OUT)/include/xxhash.h
	@mkdir -p $(@D)
	$(compile) -MMD -MP -c -o $@ $<

# One header, no library: everything in it is inline.
$(OUT)/include/xxhash.h: $(XXHASH)
	@mkdir -p $(@D)
	cp $(XXHASH) $(dir $(XXHASH))xxh3.h $(@D)/ 2>/dev/null || cp $(XXHASH) $(@D)/

-include $(objects:.o=.d) $(OUT)/tests/cross/main.d
