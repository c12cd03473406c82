# comments.awk - splits C into "FILE:LINE: c TEXT" of comments and "FILE:LINE: k TEXT" of code. -v only=c or k: those alone.
FNR == 1 { inside = 0 }
{
    comment = code = ""
    rest = $0
    while (rest != "") {
        at = inside ? index(rest, "*/") : match(rest, /\/\*|\/\//)
        if (inside && at) {
            comment = comment " " substr(rest, 1, at - 1)
            rest = substr(rest, at + 2)
            inside = 0
        } else if (inside) {
            comment = comment " " rest
            rest = ""
        } else if (at && substr(rest, at, 2) == "/*") {
            code = code substr(rest, 1, at - 1)
            rest = substr(rest, at + 2)
            inside = 1
        } else {
            code = code rest
            rest = ""
        }
    }
    if (comment != "" && only != "k")
        print FILENAME ":" FNR ": c " comment
    if (code != "" && only != "c")
        print FILENAME ":" FNR ": k " code
}
