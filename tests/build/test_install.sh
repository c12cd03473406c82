#!/bin/sh
# `make install DESTDIR=...` installs everything below DESTDIR, and programs outside the tree, in C and in C++, build
# with pkg-config alone.
case $SANITIZE_FLAGS in ?*) echo 'elsewhere: ./dev check --plain runs this; a sanitized library is not installed'; exit 77 ;; esac
command -v pkg-config >/dev/null || { echo 'no pkg-config'; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
make -C "$top_builddir" install prefix=/opt/kvcull DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
source=$(cd "$top_srcdir" && pwd)
build=$(cd "$top_builddir" && pwd)
cd "$work" || exit 1
installed=root/opt/kvcull
for file in include/kvcull.h include/kvcull/chat.h include/kvcull/grammar.h include/kvcull/policy.h include/kvcull/ranks.h include/kvcull/saved.h include/kvcull/check.h lib/libkvcull.so lib/pkgconfig/kvcull.pc bin/kvcull share/man/man1/kvcull.1; do
    [ -e "$installed/$file" ] || fail "make install left out $file"
done
for page in "$build"/docs/man/*.[17]; do
    section=${page##*.}
    [ -e "$installed/share/man/man$section/${page##*/}" ] || fail "make install left out ${page##*/}"
done
[ "$(find root -name '*.h' | wc -l)" = 7 ] || fail 'other headers were installed than kvcull.h and those of include/kvcull'
cat >use.c <<'END'
#include <kvcull/check.h>
#include <kvcull/policy.h>
#include <stdio.h>
int main(void) {
    struct kvc_engine *engine = NULL;
    struct kvc_error error;
    if (kvc_engine_open(NULL, &engine, &error) != KVC_OK) return 1;
    printf("%s\n", kvc_policy(engine, 0)->name);
    if (!kvc_verify_operation(0)) return 1;
    kvc_engine_close(engine);
    return 0;
}
END
PKG_CONFIG_PATH=$PWD/$installed/lib/pkgconfig
export PKG_CONFIG_PATH
flags=$(pkg-config --define-variable=prefix="$PWD/$installed" --cflags --libs kvcull) || fail 'pkg-config does not find kvcull'
[ "$(pkg-config --modversion kvcull)" = "$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' $installed/include/kvcull.h)" ] ||
    fail 'kvcull.pc and kvcull.h disagree about the version'
$CC -std=c11 -Wall -Wextra -pedantic -Werror use.c -o use $flags || fail 'a program outside the tree does not build'
LD_LIBRARY_PATH=$installed/lib ./use >out || fail 'a program outside the tree does not run'
[ "$(cat out)" = full ] || fail "the first policy is '$(cat out)', not full"
text='the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 .
the quiet hunter sold the golden lemon beside the lake . question : the magic number for lantern'
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { echo "no $compiler"; continue; }
    for standard in c++11 c++20; do
        $compiler -std=$standard -Wall -Wextra -Wpedantic -Werror "$source/tests/build/install_use.cc" -o use_cc $flags ||
            fail "a C++ program outside the tree does not build with $compiler -std=$standard"
        LD_LIBRARY_PATH=$installed/lib ./use_cc "$source/data/demo" "$text" >out || fail "it does not run ($compiler)"
        grep -q '48 21' out || fail "a C++ program's answer is '$(cat out)', not 48 21"
    done
done
LD_LIBRARY_PATH=$installed/lib $installed/bin/kvcull --version || fail 'the installed program does not run'
make -C "$OLDPWD/$top_builddir" uninstall prefix=/opt/kvcull DESTDIR="$work/root" >log 2>&1 ||
    make -C "$top_builddir" uninstall prefix=/opt/kvcull DESTDIR="$work/root" >log 2>&1 || { cat log; exit 1; }
[ -z "$(find root -type f)" ] || { find root -type f; fail 'make uninstall left files'; }
