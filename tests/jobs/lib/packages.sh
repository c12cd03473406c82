# packages.sh - the tools and libraries that ./dev needs, and their names in each package manager; sourced by dev.

have() { command -v "$1" >/dev/null 2>&1; }
have_library() { have pkg-config && pkg-config --exists "$1"; }
have_header() { printf '#include <%s>\n' "$1" | ${CC:-cc} -E - >/dev/null 2>&1; }
# its words, as CC="ccache gcc" has two
# shellcheck disable=SC2086
can_link() { printf 'int main(void) { return 0; }\n' | $1 -x c -o /dev/null - >/dev/null 2>&1; }
can_fuzz() { printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' | clang -fsanitize=fuzzer -x c -o /dev/null - >/dev/null 2>&1; }

# need NAME: returns true if NAME is installed.
need() {
    case $1 in
    compiler) can_link "${CC:-cc}" ;;
    autotools) [ -x configure ] && [ ! -e .git ] || { have autoreconf && have automake && have libtoolize; } ;;
    jansson) have_library jansson ;;
    pcre2) have_library libpcre2-8 ;;
    utf8proc) have_library libutf8proc ;;
    xxhash) have_header xxhash.h ;;
    opencl) have_header CL/cl.h && PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -q 'libOpenCL\.so\.1' ;;
    opencl-device) ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1 ;;
    cmocka) have_library cmocka ;;
    server) have_library libmicrohttpd ;;
    markdown) [ -e /usr/share/javascript/marked/marked.min.js ] || [ -e /usr/lib/node_modules/marked/marked.min.js ] ;;
    mpi) have mpicc && have mpirun ;;
    mpich) have mpicc.mpich && have mpirun.mpich ;; # the names that Debian gives MPICH, next to Open MPI
    cross-aarch64) can_link aarch64-linux-gnu-gcc ;;
    cross-riscv64) can_link riscv64-linux-gnu-gcc ;;
    cross-i686) can_link i686-linux-gnu-gcc ;;
    cross-s390x) can_link s390x-linux-gnu-gcc ;;
    qemu) have qemu-aarch64 && have qemu-riscv64 ;;
    fuzzer) can_fuzz ;;
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    venv) python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ;;
    *) have "$1" ;;
    esac
}

manager() {
    local name
    for name in apt-get dnf zypper pacman; do have $name && { say $name; return; }; done
}

# package MANAGER NAME: prints the packages that contain NAME.
package() {
    case $1:$2 in
    apt-get:compiler) say gcc libc6-dev ;;
    apt-get:autotools) say autoconf automake libtool ;;
    apt-get:jansson) say libjansson-dev ;;
    apt-get:pcre2) say libpcre2-dev ;;
    apt-get:utf8proc) say libutf8proc-dev ;;
    apt-get:xxhash) say libxxhash-dev ;;
    apt-get:opencl) say ocl-icd-libopencl1 opencl-headers libclblast1 ;;
    apt-get:opencl-device) say pocl-opencl-icd ;;
    apt-get:cmocka) say libcmocka-dev ;;
    apt-get:server) say libmicrohttpd-dev ;;
    apt-get:markdown) say libjs-marked ;;
    apt-get:mpi) say libopenmpi-dev openmpi-bin ;;
    apt-get:mpich) say libmpich-dev mpich ;;
    pacman:mpi) say openmpi ;;
    pacman:server) say libmicrohttpd ;;
    pacman:markdown) say marked ;;
    apt-get:valgrind) say valgrind libc6-dbg ;;
    apt-get:fuzzer) say libclang-rt-dev ;;
    apt-get:cross-aarch64) say gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
    apt-get:cross-riscv64) say gcc-riscv64-linux-gnu libc6-dev-riscv64-cross ;;
    apt-get:cross-i686) say gcc-i686-linux-gnu libc6-dev-i386-cross ;;
    apt-get:cross-s390x) say gcc-s390x-linux-gnu libc6-dev-s390x-cross ;;
    apt-get:qemu) say qemu-user ;;
    apt-get:musl-gcc) say musl-tools ;;
    apt-get:venv) say python3-venv ;;
    *:venv) say python3 ;;
    pacman:musl-gcc) say musl ;;
    pacman:pip) say python-pip ;;
    *:pip) say python3-pip ;;
    pacman:compiler) say gcc ;;
    pacman:autotools) say autoconf automake libtool ;;
    pacman:pkg-config) say pkgconf ;;
    pacman:opencl) say ocl-icd opencl-headers ;;
    *:opencl) say ocl-icd opencl-headers ;;
    *:opencl-device) say pocl ;;
    pacman:jansson | pacman:pcre2 | pacman:utf8proc | pacman:xxhash | pacman:cmocka) say "$2" ;;
    dnf:pkg-config) say pkgconf-pkg-config ;;
    *:fuzzer) say compiler-rt ;;
    *:compiler) say gcc ;;
    *:autotools) say autoconf automake libtool ;;
    *:jansson) [ "$1" = zypper ] && say libjansson-devel || say jansson-devel ;;
    *:pcre2 | *:utf8proc | *:xxhash) say "$2-devel" ;;
    *:cmocka) say libcmocka-devel ;;
    *:server) say libmicrohttpd-devel ;;
    *:cross-aarch64) say gcc-aarch64-linux-gnu ;;
    *:cross-riscv64) say gcc-riscv64-linux-gnu ;;
    *:qemu) say qemu-user ;;
    *) say "$2" ;;
    esac
}

# provide NAME...: installs those of these that are missing, or prints how to install them and exits with status 4.
provide() {
    local name missing='' packages='' tool
    for name; do need "$name" || missing="$missing $name"; done
    [ -z "$missing" ] && return
    tool=$(manager)
    [ -n "$tool" ] || { complain "missing:$missing; no apt-get, dnf, zypper or pacman here to install them with"; exit 4; }
    for name in $missing; do packages="$packages $(package "$tool" "$name")"; done
    if [ "$(id -u)" != 0 ]; then
        complain "missing:$missing; run this as root, then ./dev again:"
        say "    $([ "$tool" = apt-get ] && say 'apt-get update && ')$(install_line "$tool")$packages"
        exit 4
    fi
    say "installing:$packages"
    install_packages "$tool" "$packages"
    for name in $missing; do need "$name" || { complain "$name is still missing after installing$packages"; exit 4; }; done
}

install_line() {
    case $1 in
    apt-get) say 'apt-get install --no-install-recommends -y' ;;
    dnf) say 'dnf install -y' ;;
    zypper) say 'zypper --non-interactive install' ;;
    pacman) say 'pacman -S --noconfirm --needed' ;;
    esac
}

install_packages() {
    local log=build/install.log
    mkdir -p build
    {
        [ "$1" = apt-get ] && { export DEBIAN_FRONTEND=noninteractive; apt-get update; }
        [ "$1" = pacman ] && pacman -Sy --noconfirm
        $(install_line "$1") $2
    } </dev/null >$log 2>&1 || { tail -n 20 $log >&2; complain "installing$2 failed; $log has it all"; exit 4; }
}
