#!/bin/sh
# The binary files of a release need only the C library, of glibc 2.28 at most, and compute the stored hashes: the tarballs
# in roots with only the C library, the static program in an empty one, the wheel in one with only Python. The pack for a
# GPU runs with bash and the usual tools. Tests those files that `make binary` has written to release/.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$source/include/kvcull.h")
release=$build/release
ls "$release"/kvcull-*-linux-*.tar.xz >"$work/out" 2>&1 || { echo 'elsewhere: ./dev check --binary runs this'; exit 77; }
unset KVCULL_DATA KVCULL_PLUGINS LD_LIBRARY_PATH # only what is in the files is used
program=$build/kvcull
most=$((25 * 1024 * 1024))

# lacks NAME REASON
lacks() { echo "skipped: $1: $2"; }

# unpacked NAME: unpacks the tarball into $work/NAME, if it is there.
unpacked() {
    file=$release/kvcull-$version-linux-$1.tar.xz
    [ -e "$file" ] || { lacks "$1" "no $file"; return 1; }
    that "$1: at most 25 MB" [ "$(wc -c <"$file")" -le $most ]
    tar -xf "$file" -C "$work" && mv "$work/kvcull-$version-linux-$1" "$work/$1"
    that "$1: it has the licences of what is inside" [ -s "$work/$1/LICENSE" -a -s "$work/$1/licences/jansson.txt" ]
    ! grep -rlaF -e "$build" -e "$source" "$work/$1" >"$work/out"
    that "$1: no file names a folder of the build" [ $? = 0 ]
    ! strings -a "$work/$1"/bin/kvcull "$work/$1"/lib/*.so.* 2>/dev/null | grep -E '^/(home|root|work|build)/' >"$work/out"
    that "$1: no absolute path" [ $? = 0 ]
}

# modest NAME: libraries and symbols that the program and the library need.
modest() {
    for file in "$work/$1/bin/kvcull" "$work/$1/lib/libkvcull.so.0"; do
        readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
            grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux-[a-z0-9-]*|libkvcull)\.so\.[0-9]+$' >"$work/out"
        that "$1: ${file##*/} needs only the C library" [ $? = 1 ]
        newest=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
        that "$1: ${file##*/} needs $newest, 2.28 at most" \
            [ "$(printf '%s\n' "${newest#GLIBC_}" 2.28 | sort -V | tail -n 1)" = 2.28 ]
    done
    readelf -W --dyn-syms "$work/$1/lib/libkvcull.so.0" | awk '$7 != "UND" && $8 != "" && NR > 3 { sub(/@.*/, "", $8); print $8 }' |
        sort -u >"$work/out"
    sort -u "$build/kvcull.sym" | diff - "$work/out" >"$work/err"
    that "$1: it exports the functions of the headers only" [ $? = 0 ]
}

# root NAME FILE...: $work/NAME gets these files of this machine.
root() {
    folder=$work/$1
    shift
    mkdir -p "$folder/tmp" "$folder/proc" "$folder/dev"
    : >"$folder/dev/null"
    for file; do
        mkdir -p "$folder/${file%/*}"
        cp -L "$file" "$folder/$file"
    done
}

# needed FILE...: prints the libraries of this machine that these programs and libraries need.
needed() { ldd "$@" 2>/dev/null | grep -oE '(=> |^[[:space:]])/[^ ]+' | sed 's|^[^/]*||' | grep -v "^$work" | sort -u; }

# within ROOT COMMAND...: runs the command with that folder as root, /proc, from which the loader learns where a program
# is, and the folders in $bound.
bound=
export bound
within() {
    new=$work/$1
    shift
    for folder in $bound; do mkdir -p "$new$folder"; done
    # shellcheck disable=SC2016
    unshare $own sh -c 'for folder in /proc $bound; do mount --rbind "$folder" "$0$folder" || exit 99; done
        exec chroot "$0" "$@"' "$new" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
if [ "$(id -u)" = 0 ]; then own=-m; else own=-rm; fi
may_change_root() { unshare $own sh -c 'mount --rbind /proc "$0" && chroot / true' "$work" 2>/dev/null; }

# runs NAME ROOT: the program at /NAME in that root answers, and a few operations have the stored hashes.
runs() {
    within "$2" "/$1/bin/kvcull" eval needle -m "/$1/share/kvcull/demo" --ask both --length 256 --texts 1 --seed 7 --kv full \
        --kv snapkv:budget=64
    that "$1: the demo runs in a root without other files" [ $status = 0 ]
    has '^snapkv  *64 '
    within "$2" "/$1/bin/kvcull" verify --against stored --only operations --effort 0 -q
    that "$1: its operations have the stored hashes" [ $status = 0 ]
    within "$2" "/$1/bin/kvcull" verify --against stored --only methods --kv snapkv:budget=66 -q
    that "$1: a whole run has the stored hash" [ $status = 0 ]
    within "$2" "/$1/bin/kvcull" serve --help
    that "$1: it has the server" [ $status = 0 ]
    within "$2" "/$1/bin/kvcull" info backends
    that "$1: it chooses an instruction set" [ "$(awk '$1 == "cpu" { print $NF }' "$work/out")" = "$("$program" info backends | awk '$1 == "cpu" { print $NF }')" ]
}

# packs: the pack that tools/gpu-pack makes of the tarball runs on the CPU, where there is bash and what it calls.
packs() {
    "$source/tools/gpu-pack" --from "$release/kvcull-$version-linux-x86_64.tar.xz" "$work/tools/pack" >"$work/out" 2>"$work/err"
    that 'a pack for a GPU is made' [ $? = 0 ]
    that 'the pack: at most 30 MB' [ "$(du -sk "$work/tools/pack" | cut -f 1)" -le $((30 * 1024)) ]
    tools=$(for tool in awk bash cat cmp cp date df dirname env grep head mkdir mktemp rm sed seq sh sort tail timeout tr uname wc; do
        command -v $tool
    done)
    mkdir -p "$work/tools/usr/bin" && ln -s usr/bin "$work/tools/bin"
    # shellcheck disable=SC2046,SC2086
    root tools $tools $(needed $tools "$work/x86_64/bin/kvcull")
    within tools /pack/gpu-check --try cpu bin/kvcull
    that 'the pack: all parts are done' [ "$status $(grep -c ': done, [0-9]* s$' "$work/out")" = '0 17' ]
}

# plugs: with the plug-in of tools/mpi_plugin.sh two processes compute the stored hash.
plugs() {
    if [ -z "${MPIRUN-}" ]; then lacks 'several processes' 'no mpirun'; return; fi
    MPICC=$(echo "$MPIRUN" | sed 's/mpirun/mpicc/') sh "$source/tools/mpi_plugin.sh" "$work/x86_64" >"$work/out" 2>"$work/err"
    that 'a plug-in for MPI is made' [ $? = 0 ]
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp timeout 100 \
        "$MPIRUN" -n 2 "$work/x86_64/bin/kvcull" verify --against stored --only methods --kv snapkv:budget=66 -q >"$work/out" 2>"$work/err"
    that 'two processes have the stored hash' [ $? = 0 ]
}

if unpacked x86_64; then
    modest x86_64
    if [ "$(uname -m)" != x86_64 ]; then
        lacks x86_64 'another machine'
    elif ! may_change_root; then
        lacks x86_64 'needs root, or unshare -rm'
    else
        libraries=$(for name in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0; do
            ldconfig -p | sed -n "s|.*$name (libc6,x86-64.* => ||p" | head -n 1
        done)
        # shellcheck disable=SC2086
        root bare /lib64/ld-linux-x86-64.so.2 $libraries
        cp -a "$work/x86_64" "$work/bare/x86_64"
        runs x86_64 bare
        if PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then # as tools/binary.sh looks for it
            within bare /x86_64/bin/kvcull info backends
            has '^cuda  *no .*driver is missing'
            packs
        fi
    fi
    plugs
fi
if unpacked x86_64-static; then
    readelf -dW "$work/x86_64-static/bin/kvcull" | grep NEEDED >"$work/out"
    that 'static: it needs no library' [ $? = 1 ]
    if [ "$(uname -m)" != x86_64 ] || ! may_change_root; then
        lacks static 'another machine, or neither root nor unshare -rm'
    else
        root empty
        cp -a "$work/x86_64-static" "$work/empty/x86_64-static"
        runs x86_64-static empty
    fi
fi
if unpacked aarch64; then
    modest aarch64
    if ! command -v qemu-aarch64 >/dev/null || [ ! -e /usr/aarch64-linux-gnu/lib/libc.so.6 ]; then
        lacks aarch64 'no qemu-aarch64, or no C library for it'
    else
        qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/aarch64/bin/kvcull" verify --against stored --only operations \
            --effort 0 -q >"$work/out" 2>"$work/err"
        that 'aarch64: its operations have the stored hashes' [ $? = 0 ]
    fi
fi

# The wheel, in a root with only Python, cffi and numpy.
wheel=$release/kvcull-$version-py3-none-manylinux_2_28_$(uname -m).whl
python=${PYTHON:-python3}
if [ ! -e "$wheel" ]; then
    lacks wheel "no $wheel"
elif ! may_change_root; then
    lacks wheel 'needs root, or unshare -rm'
elif ! "$python" -m venv --copies "$work/venv" >"$work/out" 2>&1; then
    lacks wheel "$python makes no virtual environment"
elif ! "$work/venv/bin/python" -m pip install -q --retries 1 --timeout 20 --only-binary :all: cffi numpy >"$work/out" 2>&1; then
    lacks wheel 'pip does not bring cffi and numpy'
else
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    cp "$wheel" "$work/venv"
    library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    # shellcheck disable=SC2046
    root python $(needed "$work/venv/bin/python" $(find "$library" "$work/venv" -name '*.so*'))
    bound="$library $work/venv"
    within python "$work/venv/bin/python" -m pip install -q --no-index "$work/venv/${wheel##*/}"
    that 'the wheel installs' [ $status = 0 ]
    within python "$work/venv/bin/python" -m kvcull demo
    that 'python -m kvcull demo runs' [ $status = 0 ]
    has '^full  *04 82 '
    has '^snapkv:budget=64  *04 82 '
fi
[ $((passed + failed)) != 0 ] || exit 77
finish
