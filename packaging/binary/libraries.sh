#!/bin/sh
# libraries.sh SOURCES WORK PREFIX HOST - compiles the libraries of sources.tsv as archives into PREFIX/lib, with their
# headers in PREFIX/include. SOURCES: the folder of the downloads. WORK: a folder that is deleted first. HOST: the host
# triplet. CC, AR and CFLAGS are those of the target. tools/binary.sh calls it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sources=$1 work=$2 prefix=$3 host=$4
rm -rf "$work"
mkdir -p "$work" "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/licences"

# module NAME VERSION LIBRARY: writes the .pc file of a library.
module() {
    # shellcheck disable=SC2016
    printf 'libdir=%s\nName: %s\nDescription: %s\nVersion: %s\nLibs: -L${libdir} -l%s\nCflags: -I%s\n' \
        "$prefix/lib" "$1" "$1" "$2" "$3" "$prefix/include" >"$prefix/lib/pkgconfig/$1.pc"
}

# archive LIBRARY FLAGS FILE...: compiles these files into one archive.
archive() {
    library=$1 flags=$2
    shift 2
    # shellcheck disable=SC2086
    for file; do $CC $CFLAGS -fPIC $flags -c "$file" -o "$(basename "$file" .c).o"; done
    rm -f "$prefix/lib/lib$library.a"
    $AR rcsD "$prefix/lib/lib$library.a" ./*.o
}

# The tarball has no configure script, so this function writes the settings that it would write.
jansson() {
    sed 's/@json_inline@/inline/; s/@[a-z_]*@/1/' src/jansson_config.h.in >src/jansson_config.h
    : >src/jansson_private_config.h
    cp src/jansson.h src/jansson_config.h "$prefix/include"
    headers='-DHAVE_ENDIAN_H -DHAVE_FCNTL_H -DHAVE_LOCALE_H -DHAVE_SCHED_H -DHAVE_UNISTD_H -DHAVE_SYS_PARAM_H
        -DHAVE_SYS_STAT_H -DHAVE_SYS_TIME_H -DHAVE_SYS_TYPES_H -DHAVE_STDINT_H'
    functions='-DHAVE_CLOSE -DHAVE_GETPID -DHAVE_GETTIMEOFDAY -DHAVE_LOCALECONV -DHAVE_OPEN -DHAVE_READ -DHAVE_SCHED_YIELD
        -DHAVE_STRTOLL -DHAVE_ATOMIC_BUILTINS -DHAVE_SYNC_BUILTINS -DUSE_URANDOM -DINITIAL_HASHTABLE_ORDER=3'
    archive jansson "$headers $functions -Isrc" src/*.c
    module jansson "$1" jansson
}

# As its NON-AUTOTOOLS-BUILD says: for UTF-8, without the just-in-time compiler.
pcre2() {
    cp src/config.h.generic src/config.h
    cp src/pcre2.h.generic src/pcre2.h
    cp src/pcre2_chartables.c.dist src/pcre2_chartables.c
    cp src/pcre2.h "$prefix/include"
    files=$(sed -n 's/^ *\(pcre2_[a-z0-9_]*\.c\)$/src\/\1/p' NON-AUTOTOOLS-BUILD | sort -u)
    # shellcheck disable=SC2086
    archive pcre2-8 '-DHAVE_CONFIG_H -DPCRE2_CODE_UNIT_WIDTH=8 -DPCRE2_STATIC -DSUPPORT_UNICODE -Isrc' $files
    module libpcre2-8 "$1" pcre2-8
}

utf8proc() {
    cp utf8proc.h "$prefix/include"
    archive utf8proc -DUTF8PROC_STATIC utf8proc.c
    module libutf8proc "$1" utf8proc
}

# Only headers; kvcull opens libOpenCL at run time.
opencl() { cp -R usr/include/CL "$prefix/include"; }

xxhash() { cp xxhash.h "$prefix/include"; }

# Only what kvcull serve uses.
libmicrohttpd() {
    ./configure --host="$host" --prefix="$prefix" --disable-shared --enable-static --with-pic --disable-doc --disable-examples \
        --disable-tools --disable-curl --disable-https --disable-bauth --disable-dauth --disable-httpupgrade \
        --disable-postprocessor --disable-cookie --enable-md5=no --enable-sha256=no --disable-sha512-256 \
        CFLAGS="$CFLAGS" >configure.log 2>&1 || { tail -n 20 configure.log >&2; exit 1; }
    make -C src/microhttpd install >make.log 2>&1 || { tail -n 20 make.log >&2; exit 1; }
    make -C src/include install >>make.log 2>&1
    rm -f "$prefix"/lib/*.la
    module libmicrohttpd "$1" microhttpd
}

grep -v '^#' "$here/sources.tsv" | while read -r name version file _ licence; do
    mkdir "$work/$name"
    case $file in
    *.deb) (cd "$work/$name" && ar p "$sources/${file##*/}" data.tar.xz | tar -xJ) ;;
    *) tar -xf "$sources/${file##*/}" -C "$work/$name" --strip-components=1 ;;
    esac
    cp "$work/$name/$licence" "$prefix/licences/$name.txt"
    cd "$work/$name"
    "$name" "$version"
done
