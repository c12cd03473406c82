#!/bin/sh
# binary.sh - builds the binary files of a release, which need no libraries but the C library: tarballs for x86_64 and
# aarch64, a static program, and Python wheels. The same tree gives byte-identical files in any folder. `make binary`
# calls this script.
#
#     tools/binary.sh [--only LIST] [--cuda ARCHS] [--work FOLDER] TREE OUT
#
# LIST: comma-separated, any of x86_64, aarch64, static and wheels; wheels needs both tarballs. ARCHS: compute
# capabilities such as 80,90, for which the x86_64 tarball gets CUDA kernels; no: none. By default, ARCHS is those of
# 70, 75, 80, 90, 100 and 120 that nvcc supports, or none if there is no nvcc. TREE: an unpacked source release, or a
# folder that `make distdir` filled. FOLDER (default: binary) caches compiler, sources and builds. The compiler comes
# from pip, the libraries from the Debian mirror in apt's settings or in DEBIAN_MIRROR; the hash of each download is
# checked. nvcc is not downloaded; the kernels are byte-identical only if nvcc has the same version.
set -eu
umask 022
only=x86_64,aarch64,static,wheels work=binary archs=
while :; do
    case ${1-} in
    --only) only=$2; shift 2 ;;
    --cuda) archs=$2; shift 2 ;;
    --work) work=$2; shift 2 ;;
    *) break ;;
    esac
done
[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$work" "$2"
work=$(cd "$work" && pwd) tree=$(cd "$1" && pwd) out=$(cd "$2" && pwd)
fail() { echo "binary: $*" >&2; exit 1; }
case $work$tree in *[[:space:]]*) fail "$work or $tree contains a space, which make cannot handle" ;; esac
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$tree/include/kvcull.h")
recipe=$tree/packaging/binary
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$tree/include/kvcull.h")}
LC_ALL=C PYTHONDONTWRITEBYTECODE=yes PYTHONPATH=$work/python
export SOURCE_DATE_EPOCH LC_ALL PYTHONDONTWRITEBYTECODE PYTHONPATH
unset CC CFLAGS CPPFLAGS LDFLAGS LIBS AR RANLIB MAKEFLAGS MFLAGS MAKELEVEL

# quietly LOG COMMAND...: runs the command. If it fails, shows the end of the log.
quietly() {
    log=$work/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; fail "$1 failed; $log has it all"; }
}

# Installs the compiler and the Python tools.
tools() {
    cmp -s "$recipe/python.txt" "$work/python/list" && return
    rm -rf "$work/python"
    quietly pip python3 -m pip --disable-pip-version-check install --no-deps --only-binary :all: --require-hashes \
        --target "$work/python" -r "$recipe/python.txt"
    cp "$recipe/python.txt" "$work/python/list"
}

# mirror: prints the Debian mirror from which the libraries come.
mirror() {
    if [ -n "${DEBIAN_MIRROR-}" ]; then
        echo "${DEBIAN_MIRROR%/}"
    else
        apt-get indextargets --format '$(SITE)' 2>/dev/null | sed -n 's|/*$||; /\/debian$/p' | head -n 1
    fi
}

sources() {
    mkdir -p "$work/sources"
    grep -v '^#' "$recipe/sources.tsv" | while read -r _ _ file hash _; do
        name=$work/sources/${file##*/}
        if [ ! -e "$name" ] || ! echo "$hash  $name" | sha256sum -c --quiet; then
            from=$(mirror)
            [ -n "$from" ] || fail "no Debian mirror in apt's settings; DEBIAN_MIRROR must be the address of one"
            # curl takes a proxy from the environment, apt from its own settings.
            curl -sfL -o "$name.part" "$from/$file" || /usr/lib/apt/apt-helper download-file "$from/$file" "$name.part" >&2 ||
                fail "$from/$file cannot be downloaded"
            echo "$hash  $name.part" | sha256sum -c --quiet || fail "$from/$file is not the file of sources.tsv"
            mv "$name.part" "$name"
        fi
    done
}

# compiler NAME TARGET: writes the commands NAME-cc and NAME-ar.
compiler() {
    mkdir -p "$work/bin"
    cat >"$work/bin/$1-cc" <<END
#!/bin/sh
# zig accepts names of CPUs, but no names of architecture versions.
for argument; do
    shift
    case \$argument in -march=armv8.2-a*) argument=-mcpu=generic+v8_2a\${argument#-march=armv8.2-a} ;; esac
    set -- "\$@" "\$argument"
done
ZIG_GLOBAL_CACHE_DIR='$work/cache' ZIG_LOCAL_CACHE_DIR='$work/cache'
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
exec '$work/python/ziglang/zig' cc -target $2 "\$@"
END
    printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$work/python/ziglang/zig" >"$work/bin/$1-ar"
    chmod +x "$work/bin/$1-cc" "$work/bin/$1-ar"
    CC=$work/bin/$1-cc AR=$work/bin/$1-ar RANLIB=true
    # zig's own defaults are those of a debug build.
    CFLAGS="-O2 -g0 -fno-sanitize=undefined -fomit-frame-pointer -ffile-prefix-map=$work=. -ffile-prefix-map=$tree=."
    export CC AR RANLIB CFLAGS
}

# cuda_options: prints configure's options for the CUDA toolkit on this machine.
cuda_options() {
    PATH=$PATH:/usr/local/cuda/bin
    if [ "$archs" = no ]; then
        return
    elif ! command -v nvcc >/dev/null; then
        [ -z "$archs" ] || fail "--cuda $archs: no nvcc in PATH or /usr/local/cuda/bin"
        echo 'x86_64: without CUDA, because there is no nvcc' >&2
        return
    fi
    known=$(nvcc --list-gpu-arch)
    [ -n "$archs" ] || for arch in 70 75 80 90 100 120; do
        case " $known " in *compute_"$arch"[[:space:]]*) archs=$archs${archs:+,}$arch ;; esac
    done
    echo "x86_64: CUDA for compute capabilities $archs" >&2
    echo "--with-cuda --with-cuda-arch=$archs"
}

# build NAME TARGET HOST OPTION...: compiles the libraries and kvcull, and installs it into $work/NAME/root/usr.
build() {
    name=$1 target=$2 host=$3
    shift 3
    compiler "$name" "$target"
    mkdir -p "$work/$name"
    if ! cmp -s "$recipe/sources.tsv" "$work/$name/libraries/list"; then
        quietly "$name-libraries" sh "$recipe/libraries.sh" "$work/sources" "$work/$name/sources" "$work/$name/libraries" "$host"
        cp "$recipe/sources.tsv" "$work/$name/libraries/list"
    fi
    rm -rf "$work/$name/build" "$work/$name/root"
    mkdir -p "$work/$name/build"
    cd "$work/$name/build"
    # zig links no code that runs a library's exit handlers, such as that of CUDA's runtime, when the library is closed.
    # With nodelete, the library stays open until the process ends.
    quietly "$name-configure" "$tree/configure" --host="$host" --prefix=/usr --enable-relocatable \
        --with-static-deps="$work/$name/libraries" --with-server=yes --with-markdown=no --with-mpi=no --with-opencl=yes \
        LDFLAGS=-Wl,-s,-z,nodelete "$@"
    quietly "$name-build" make -j"$(nproc 2>/dev/null || echo 2)"
    quietly "$name-install" make install DESTDIR="$work/$name/root"
    cd "$work"
    rm -f "$work/$name/root"/usr/lib/*.la "$work/$name/root"/usr/lib/*.a
    sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$work/$name/root/usr/lib/pkgconfig/kvcull.pc"
}

# pack NAME FOLDER: makes FOLDER.tar.xz from the installed files, with all licences.
pack() {
    packed=$work/$1/$2
    rm -rf "$packed"
    mv "$work/$1/root/usr" "$packed"
    cp "$tree/LICENSE" "$tree/CHANGELOG.md" "$packed"
    mkdir "$packed/licences"
    cp "$work/$1/libraries/licences"/*.txt "$packed/licences"
    cp "$work/python/ziglang/LICENSE" "$packed/licences/zig.txt"
    cp "$work/python/ziglang/lib/libc/musl/COPYRIGHT" "$packed/licences/musl.txt"
    chmod -R u=rwX,go=rX "$packed"
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work/$1" -cf - "$2" |
        xz -9e -T1 >"$out/$2.tar.xz.part"
    mv "$out/$2.tar.xz.part" "$out/$2.tar.xz"
    ls -l "$out/$2.tar.xz" | awk '{ print $NF ": " $5 " bytes" }'
}

# linux ARCH: makes the tarball for one architecture.
linux() {
    cuda=
    [ "$1" != x86_64 ] || cuda=$(cuda_options)
    # shellcheck disable=SC2086
    build "$1" "$1-linux-gnu.2.28" "$1-linux-gnu" $cuda
    pack "$1" "kvcull-$version-linux-$1"
}

# Makes the program alone, as one static file.
static() {
    build static x86_64-linux-musl x86_64-linux-musl --disable-shared --with-openblas=no
    rm -rf "$work/static/root/usr/lib" "$work/static/root/usr/include"
    pack static "kvcull-$version-linux-x86_64-static"
}

# wheel ARCH: makes the Python package, with the library of that architecture's tarball.
wheel() {
    packed=$work/$1/kvcull-$version-linux-$1
    [ -d "$packed" ] || fail "no $packed: a wheel needs the tarball of its architecture"
    rm -rf "$work/$1/wheel"
    mkdir -p "$work/$1/wheel/data"
    cp -R "$tree/python" "$work/$1/wheel"
    cp -R "$tree/data/demo" "$work/$1/wheel/data"
    cd "$work/$1/wheel/python"
    KVCULL_LIBRARY=$packed/lib/libkvcull.so KVCULL_WHEEL=manylinux_2_28_$1
    export KVCULL_LIBRARY KVCULL_WHEEL
    quietly "$1-wheel" python3 setup.py bdist_wheel --dist-dir "$out"
    cd "$work"
    file=$out/kvcull-$version-py3-none-manylinux_2_28_$1.whl
    quietly "$1-auditwheel" python3 -m auditwheel show "$file"
    glibc=$(sed -n "s/.*\"manylinux_2_\([0-9]*\)_$1\".*/\1/p" "$work/$1-auditwheel.log" | head -n 1)
    [ "${glibc:-99}" -le 28 ] || fail "auditwheel does not accept $file; $work/$1-auditwheel.log says why"
    ls -l "$file" | awk '{ print $NF ": " $5 " bytes" }'
}

tools
sources
for part in $(echo "$only" | tr , ' '); do
    case $part in
    x86_64 | aarch64) linux "$part" ;;
    static) static ;;
    wheels) wheel x86_64; wheel aarch64 ;;
    *) fail "--only $part: must be of x86_64, aarch64, static, wheels" ;;
    esac
done
