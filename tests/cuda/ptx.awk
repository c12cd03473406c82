# ptx.awk - what a PTX file with line numbers (-lineinfo) computes otherwise than its source says: a fused multiply-add
# that the source does not name (it names them with rounding towards zero here, -DKVC_CUDA_FMA=__fmaf_rz), sums and
# products that the assembler may fuse (those without a rounding), arithmetic that flushes denormals, approximations.
# A line for each, with where the compiler says it comes from. The file is given twice: the names of sources stand at
# its end.
NR == FNR {
    if ($1 == ".file") {
        split($0, quoted, "\"")
        paths[$2] = quoted[2]
    }
    next
}
$1 == ".loc" { file = $2; number = $3; where = paths[file] ":" number }
{
    word = $1 ~ /^@/ ? $2 : $1
    sub(/;.*/, "", word)
}
/^[ \t]*\.entry|\.visible \.entry/ { entries++ }
word ~ /^(fma|mad)\.(rn|rz|rm|rp|f)/ && word !~ /\.(f64|s|u)[0-9]*$|\.wide|\.lo/ {
    fused++
    if (word !~ /^fma\.rz/)
        print where ": " word " where the source names none"
}
word ~ /^(add|sub|mul)\.(f32|ftz)/ { print where ": " word " may be fused" }
word ~ /\.ftz/ { print where ": " word " flushes denormals" }
word ~ /^(div|sqrt|rsqrt|rcp|ex2|lg2|sin|cos|tanh)\.(approx|full)/ { print where ": " word " is an approximation" }
END {
    if (!entries)
        print "no kernel in this file"
    print "looked at " entries + 0 " kernels, " fused + 0 " fused multiply-adds" >"/dev/stderr"
}
