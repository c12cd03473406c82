# ptx.awk - what a PTX file with line numbers (-lineinfo) computes otherwise than its source says: a fused multiply-add
# from a line that names none (fma or FMA), sums and products that the assembler may fuse (those without a rounding),
# arithmetic that flushes denormals, approximations. A line for each. The file is given twice: the names of sources
# stand at its end.
function line_of(file, number,    path, text, n) {
    if (!(file in known)) {
        known[file] = 1
        path = paths[file]
        for (n = 1; (getline text <path) > 0; n++)
            source[file, n] = text
        close(path)
    }
    return source[file, number]
}
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
    if (line_of(file, number) !~ /[fF][mM][aA]/)
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
