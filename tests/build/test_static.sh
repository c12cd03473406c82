#!/bin/sh
# A program that links the library statically gets all other libraries from pkg-config --static. configure refuses
# values that make cannot use: a CUDA folder with a space in its path.
case $SANITIZE_FLAGS in ?*) echo 'elsewhere: ./dev check --plain runs this; a sanitized library is not linked'; exit 77 ;; esac
command -v pkg-config >/dev/null || { echo 'no pkg-config'; exit 77; }
source=$(cd "$top_srcdir" && pwd) && build=$(cd "$top_builddir" && pwd) || exit 1
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
cd "$work" || exit 1

# Refused before configure searches for anything.
mkdir 'a b' configured
for option in "--with-cuda=$work/a b" "--with-cuda NVCC=$work/a b/nvcc" "--with-cuda CUDA_HOME=$work/a b"; do
    case $option in
    --with-cuda\ *) set -- --with-cuda "${option#--with-cuda }" ;;
    *) set -- "$option" ;;
    esac
    ! (cd configured && sh "$source/configure" "$@" >../log 2>&1) || fail "configure takes $option"
    grep -q 'error: --with-[a-z]*: ".*a b.*" has a space in it' log || { cat log; fail "configure does not say what is wrong with $option"; }
done

# The archive that the shared library is made of, under the static library's name.
archive=$build/.libs/libkvc.a
[ -e "$archive" ] || { echo "no $archive"; exit 77; }
mkdir lib
ln -s "$archive" lib/libkvcull.a
PKG_CONFIG_PATH=$build${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
flags=$(pkg-config --static --define-variable=libdir="$work/lib" --libs kvcull) || fail 'pkg-config does not find kvcull'
case " $flags " in *OpenCL* | *mpi*) fail "a library that is opened at run time is linked: $flags" ;; esac
if grep -q '^#define KVC_CUDA 1' "$build/config.h"; then
    case " $flags " in *libcudart_static.a*) ;; *) fail "CUDA's runtime is missing: $flags" ;; esac
fi
cat >use.c <<'END'
#include <kvcull.h>
#include <stdio.h>
int main(void) {
    struct kvc_engine *engine = NULL;
    struct kvc_error error;
    if (kvc_engine_open(NULL, &engine, &error) != KVC_OK) return 1;
    printf("%s\n", kvc_version());
    kvc_engine_close(engine);
    return 0;
}
END
# The whole archive, so that every library that any part of it calls must be named.
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -I"$source/include" use.c -o use -Wl,--whole-archive lib/libkvcull.a -Wl,--no-whole-archive $flags || fail 'a program with the static library does not link'
[ "$(./use)" = "$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$source/include/kvcull.h")" ] || fail 'it does not run'
