#!/bin/sh
# nvcc's PTX of the kernels contains no fused multiply-add that the source does not name, nothing that flushes
# denormals, no approximations and nothing that the assembler may fuse, for each architecture of this build.
# KVCULL_PTX_ARCH names other architectures: "80 90", or "default" for those of configure's defaults that the compiler
# knows. The flags are those of the build. The test first checks that it detects wrong flags and sources. If the toolkit
# has nvdisasm, or KVCULL_NVDISASM names one, it also reads the assembler's output (SASS).
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
command=$(make -s -n -W "$source/backends/cuda/kernels.cu" -C "$build" backends/cuda/kernels.lo 2>/dev/null |
    sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' | grep nvcc.sh)
nvcc=$(printf '%s\n' "$command" | sed -n 's/.*nvcc\.sh \([^ ]*\) .*/\1/p')
[ -n "$nvcc" ] && command -v "$nvcc" >/dev/null || { echo 'skipped: no nvcc in this build'; exit 77; }
flags=$(printf '%s\n' "$command" | tr ' ' '\n' | grep -E '^-(O[0-9]|std=|fmad=|prec-|ftz=|use_fast)')
[ "${KVCULL_PTX_ARCH-}" != default ] || KVCULL_PTX_ARCH=$(for arch in $(sed -n 's/^ *for arch in \([0-9 ]*\); do$/\1/p' \
    "$source/configure.ac"); do "$nvcc" --list-gpu-arch | grep -x "compute_$arch"; done | sed 's/compute_//')
archs=${KVCULL_PTX_ARCH:-$(printf '%s\n' "$command" | grep -o 'code=sm_[0-9a-z]*' | sed 's/code=sm_//' | sort -u)}
that 'the flags of the build are found' [ "$(printf '%s\n' "$flags" | grep -c 'fmad=false\|ftz=false')" = 2 ]
that 'architectures' [ -n "$archs" ]

# ptx ARCH FILE FLAGS...: writes findings to $work/out and the checked instructions to $work/err.
ptx() {
    arch=$1 file=$2
    shift 2
    # shellcheck disable=SC2086
    "$nvcc" $flags "$@" -DKVC_CUDA_FMA=__fmaf_rz -arch="compute_$arch" -lineinfo -ptx -I"$source" -I"$source/include" -o "$work/ptx" "$file" \
        >"$work/err" 2>&1 || { bad "nvcc: $file"; : >"$work/out"; return 1; }
    awk -f "$source/tests/cuda/ptx.awk" "$work/ptx" "$work/ptx" >"$work/out" 2>"$work/err"
}
mutant() { # TITLE PATTERN EXPRESSION FLAGS...
    title=$1 pattern=$2
    printf 'extern "C" __global__ void kernel(float *x) {\n    float a = x[0], b = x[1], c = x[2];\n    x[3] = %s;\n}\n' \
        "$3" >"$work/mutant.cu"
    shift 3
    ptx "${archs%%[!0-9]*}" "$work/mutant.cu" "$@" && that "$title" grep -q "$pattern" "$work/out"
}
nvdisasm=${KVCULL_NVDISASM-$(command -v nvdisasm || command -v "$(dirname "$(command -v "$nvcc")")/nvdisasm")}
# sass ARCH FILE FLAGS...: the same for the assembler's output.
sass() {
    arch=$1 file=$2
    shift 2
    # shellcheck disable=SC2086
    "$nvcc" $flags "$@" -arch="sm_$arch" -lineinfo -cubin -I"$source" -I"$source/include" -o "$work/cubin" "$file" \
        >"$work/err" 2>&1 && "$nvdisasm" -g -c "$work/cubin" >"$work/sass" 2>>"$work/err" ||
        { bad "nvcc or nvdisasm: $file"; : >"$work/out"; return 1; }
    awk -f "$source/tests/cuda/sass.awk" "$work/sass" >"$work/out" 2>"$work/err"
}
archs=$(echo $archs)
mutant 'a contraction is found' 'where the source names none' 'a * b + c' -fmad=true
mutant 'what may be fused later is found' 'may be fused' 'a + b' -fmad=true
mutant 'flushing is found' 'flushes denormals' 'a * b' -ftz=true
mutant 'division by flags is found' 'is an approximation' 'a / b' -prec-div=false
mutant 'a fast division is found' 'is an approximation' '__fdividef(a, b)'
mutant 'a fast exponential is found' 'is an approximation' '__expf(a)'
ptx_right() { printf 'extern "C" __global__ void kernel(float *x) { x[3] = __fmaf_rz(x[0], x[1], x[2]) / x[4]; }\n' \
    >"$work/right.cu"; ptx "${archs%%[!0-9]*}" "$work/right.cu"; }
ptx_right && that 'a right one passes' [ ! -s "$work/out" ]
that 'and its fma was seen' grep -q '1 fused' "$work/err"
if [ -n "$nvdisasm" ]; then
    mutant_sass() { # TITLE PATTERN EXPRESSION FLAGS...
        mutant "$@"
        title=$1 pattern=$2
        shift 3
        sass "${archs%%[!0-9]*}" "$work/mutant.cu" "$@" && that "$title, in SASS" grep -q "$pattern" "$work/out"
    }
    mutant_sass 'a contraction is found' 'where the source names none' 'a * b + c' -fmad=true
    mutant_sass 'flushing is found' 'flushes denormals' 'a * b' -ftz=true
    sass "${archs%%[!0-9]*}" "$work/right.cu" && that 'a right one passes, in SASS' [ ! -s "$work/out" ]
fi

for arch in $archs; do
    ptx "$arch" "$source/backends/cuda/kernels.cu" || continue
    that "$arch: as the source says" [ ! -s "$work/out" ]
    that "$arch: every kernel" [ "$(sed -n 's/looked at \([0-9]*\) kernels.*/\1/p' "$work/err")" -ge 40 ]
    that "$arch: with fused multiply-adds" [ "$(sed -n 's/.*, \([0-9]*\) fused.*/\1/p' "$work/err")" -gt 0 ]
    ! grep -q _INTERNAL_ "$work/ptx"
    that "$arch: no name has a hash of the folder" [ $? = 0 ]
    [ -n "$nvdisasm" ] && sass "$arch" "$source/backends/cuda/kernels.cu" || continue
    that "$arch: as the source says, in SASS" [ ! -s "$work/out" ]
done
finish
