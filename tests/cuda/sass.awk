# sass.awk - what a disassembled cubin with line numbers (nvdisasm -g -c) computes otherwise than its source says: a fused
# multiply-add from a line that names none, and arithmetic that flushes denormals. Quotients and roots are made of both,
# in place and in the assembler's own subroutines ($__internal_...). Of what a macro makes, the line is the macro's.
function line_of(path, number,    text, n) {
    if (!(path in known)) {
        known[path] = 1
        for (n = 1; (getline text <path) > 0; n++)
            source[path, n] = text
        close(path)
    }
    return source[path, number]
}
/^[ \t]*\/\/## File/ {
    split($0, quoted, "\"")
    path = quoted[2]
    match($0, /line [0-9]+/)
    number = substr($0, RSTART + 5, RLENGTH - 5)
    next
}
/^\.text\.|^[ \t]*\.section[ \t]+\.text/ { internal = 0; entries += /^\.text\..*:/ }
/^\$__internal_.*:/ { internal = 1 }
!internal && match($0, /[ \t](FFMA|FADD|FMUL)[.A-Z0-9]*/) {
    word = substr($0, RSTART + 1, RLENGTH - 1)
    where = path ":" number
    if (word ~ /^FFMA/) {
        fused++
        if (line_of(path, number) !~ /[fF][mM][aA]|kvc_plus|\/|sqrt|kvc_div|^KVC_[A-Z_]+\(/)
            print where ": " word " where the source names none"
    }
    if (word ~ /FTZ/ && line_of(path, number) !~ /\/|sqrt|div/)
        print where ": " word " flushes denormals"
}
END {
    if (!entries)
        print "no kernel in this file"
    print "looked at " entries + 0 " kernels, " fused + 0 " fused multiply-adds" >"/dev/stderr"
}
