# commands.sh - compile_commands.json, from which editors learn how each file is compiled; read by dev.

# compile_commands DIR: asks make how it would compile all files, tests included, and writes the answer to the top
# folder.
compile_commands() {
    local dir=$PWD/$1 programs
    [ compile_commands.json -nt "$1/Makefile" ] && return
    programs=$(make -s --no-print-directory -C "$1" list-tests 2>/dev/null | grep -v '\.sh$' | paste -sd ' ')
    # Each object depends on config.h, so make would compile all of them if config.h were new.
    # shellcheck disable=SC2086
    make -n -k V=1 -C "$1" -W config.h all-am $programs 2>/dev/null </dev/null |
        awk -v dir="$dir" '
            function quoted(text) {
                gsub(/\\/, "\\\\", text)
                gsub(/"/, "\\\"", text)
                return "\"" text "\""
            }
            BEGIN { printf "[" }
            / -c -o / {
                sub(/^.*--mode=compile /, "")
                sub(/^.*;\\$/, "")
                sub(/^ccache /, "")
                # `test -f name || echo folder/`name: the file is in the folder of the source
                if (match($0, /`test -f [^`]*`/)) {
                    folder = substr($0, RSTART, RLENGTH)
                    sub(/^[^|]*\|\| echo ./, "", folder)
                    sub(/.`$/, "", folder)
                    $0 = substr($0, 1, RSTART - 1) folder substr($0, RSTART + RLENGTH)
                }
                sub(/ &&.*$/, "")
                sub(/[ ;\\]+$/, "")
                sub(/ -MT [^ ]+ -MD -MP -MF [^ ]+/, "")
                count = split($0, word, " ")
                file = word[count]
                if (file !~ /\.c$/ || (file in written))
                    next
                written[file] = 1
                printf "%s\n {\"directory\": %s, \"file\": %s, \"command\": %s}", lines++ ? "," : "", quoted(dir),
                       quoted(file), quoted($0)
            }
            END { print "\n]"; exit lines == 0 }' >compile_commands.json.new &&
        mv compile_commands.json.new compile_commands.json || rm -f compile_commands.json.new
}
