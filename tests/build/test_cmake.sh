#!/bin/sh
# A CMake project finds the installed library by find_package alone, in compatible versions only.
case $SANITIZE_FLAGS in ?*) echo 'elsewhere: ./dev check --plain runs this; a sanitized library is not installed'; exit 77 ;; esac
CC=${CC#ccache } # CMake takes one program
export CC
command -v cmake >/dev/null || { echo 'no cmake'; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
make -C "$top_builddir" install prefix=/opt/kvcull DESTDIR="$work/root" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$top_srcdir/include/kvcull.h")
cd "$work" || exit 1
mkdir project
cat >project/CMakeLists.txt <<'END_OF_LISTS'
cmake_minimum_required(VERSION 3.10)
project(use C)
find_package(kvcull ${WANTED} CONFIG REQUIRED)
add_executable(use use.c)
target_link_libraries(use PRIVATE kvcull::kvcull)
END_OF_LISTS
cat >project/use.c <<'END_OF_SOURCE'
#include <kvcull/check.h>
#include <kvcull/policy.h>
#include <stdio.h>
int main(void) {
    printf("%s %s\n", kvc_version(), kvc_verify_operation(0) ? "ok" : "none");
    return 0;
}
END_OF_SOURCE
# configures VERSION: the result of find_package for that version.
configures() {
    rm -rf build
    cmake -S project -B build -DWANTED="$1" -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_PREFIX_PATH="$work/root/opt/kvcull" >log 2>&1
}
for wanted in '' "${version%.*}" "$version"; do
    configures "$wanted" || { cat log; echo "version '$wanted' is not found"; exit 1; }
done
for wanted in 99.0 "$version.1"; do
    ! configures "$wanted" || { echo "version $wanted is found, though this is $version"; exit 1; }
done
configures "$version" && cmake --build build >log 2>&1 || { cat log; exit 1; }
[ "$(build/use)" = "$version ok" ] || { build/use; exit 1; }
# The installed folder may be moved.
mv root moved
cmake -S project -B again -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_PREFIX_PATH="$work/moved/opt/kvcull" >log 2>&1 &&
    cmake --build again >log 2>&1 && [ "$(again/use)" = "$version ok" ] || { cat log; exit 1; }
