#!/bin/sh
# completions.sh - writes shell completions of the program's command line, from the program's own tables.
# tools/completions.sh PROGRAM FOLDER writes FOLDER/bash/kvcull, FOLDER/zsh/_kvcull and FOLDER/fish/kvcull.fish.
# tools/manual.sh calls it.
set -eu
program=$1
folder=$2
mkdir -p "$folder/bash" "$folder/zsh" "$folder/fish"
table=$folder/table.part
trap 'rm -f "$table"' EXIT
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\)  *\(.*\)/\1	\2/p"; }

# Lines of fields separated by tabs: "command NAME HELP"; "word COMMAND WORD"; "method NAME"; "option COMMAND" and the
# fields of cli/completion.c.
{
    "$program" --help | listed Commands | sed 's/^/command	/'
    for command in $("$program" --help | listed Commands | cut -f1); do
        "$program" "$command" --completion | sed "s/^/option	$command	/"
    done
    for task in $("$program" eval --help | listed 'With options of their own' | cut -f1); do
        printf 'word\teval\t%s\n' "$task"
        "$program" eval "$task" --completion | sed "s/^/option	eval $task	/"
    done
    "$program" eval --list | sed -n 's/^\([a-z][a-z0-9_]*\) .*/word	eval	\1/p'
    printf 'word\tinfo\t%s\n' backends methods families shapes templates
    "$program" info methods --markdown | sed -n 's|^.*](methods/\([a-z0-9-]*\)\.md).*|method	\1|p'
} >"$table"

# Code that the three scripts share: it sets words[command], methods and, for each option, how to complete its value.
common='
    function value(name, kind, meta, choices) { # words, "@methods", "@files" or "@none"
        if (kind == "choice") { gsub(/[|]/, " ", choices); return choices }
        if (kind == "number" || kind == "size") return "@none"
        if (meta == "SPEC") return "@methods"
        return name != "file" && meta ~ /^(NAME|TEXT|LIST|DATE|JSON|OPERATION|I.N)/ ? "@none" : "@files"
    }
    $1 == "command" { commands[++ncommands] = $2; about[$2] = $3 }
    $1 == "word" { words[$2] = words[$2] " " $3 }
    $1 == "method" { methods = methods " " $2 }
    $1 == "option" {
        n = ++count
        of[n] = $2; letter[n] = $3; name[n] = $4; kind[n] = $5; meta[n] = $6; choices[n] = $7; help[n] = $8
        gives[n] = kind[n] == "flag" ? "" : value($4, $5, $6, $7)
    }
    function long(i) { return name[i] == "-" ? "-" letter[i] : "--" name[i] }'

awk -F '\t' "$common"'
    END {
        print "# kvcull for bash. Made by tools/completions.sh; edit the tables of options instead."
        print "_kvcull() {"
        print "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]-}"
        printf "    local methods=\"%s\" words=\n", substr(methods, 2)
        print "    COMPREPLY=()"
        all = ""
        for (i = 1; i <= ncommands; i++) all = all " " commands[i]
        print "    if [ \"$COMP_CWORD\" = 1 ]; then"
        printf "        words=\"%s help --help --version\"\n", substr(all, 2)
        print "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))"
        print "        return"
        print "    fi"
        print "    [ \"$command\" != eval ] || case ${COMP_WORDS[2]-} in"
        for (i = 1; i <= count; i++) if (of[i] ~ / / && !(of[i] in seen)) { seen[of[i]] = 1; print "    " substr(of[i], 6) ") command=\"" of[i] "\" ;;" }
        print "    esac"
        print "    case $command:$before in"
        for (i = 1; i <= count; i++) if (gives[i] != "") {
            pattern = (letter[i] == "-" ? "" : "\"" of[i] ":-" letter[i] "\"") (letter[i] != "-" && name[i] != "-" ? " | " : "") (name[i] == "-" ? "" : "\"" of[i] ":--" name[i] "\"")
            if (gives[i] == "@methods") act = "words=$methods"
            else if (gives[i] == "@none") act = "return"
            else if (gives[i] ~ /^@/) act = "COMPREPLY=($(compgen -f -- \"$word\")); return"
            else act = "words=\"" gives[i] "\""
            print "    " pattern ") " act " ;;"
        }
        print "    info:methods) words=$methods ;;"
        print "    *)"
        print "        case $command in"
        for (i = 1; i <= count + 1; i++) {
            if (i > count || (i > 1 && of[i] != of[i - 1])) print "        \"" of[i - 1] "\") words=\"" list words[of[i - 1]] " --help\" ;;"
            if (i > count) break
            if (i == 1 || of[i] != of[i - 1]) list = long(i); else list = list " " long(i)
        }
        for (i = 1; i <= ncommands; i++) helped = helped " " commands[i]
        printf "        help) words=\"%s\" ;;\n", substr(helped, 2)
        print "        esac"
        print "        case $word in"
        print "        -*) ;;"
        print "        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;"
        print "        esac"
        print "        ;;"
        print "    esac"
        print "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))"
        print "}"
        print "complete -o filenames -F _kvcull kvcull"
    }' "$table" >"$folder/bash/kvcull"

awk -F '\t' "$common"'
    function quoted(text) { gsub(/'\''/, "'\''\\'\'''\''", text); gsub(/\[/, "\\\\[", text); gsub(/\]/, "\\\\]", text); gsub(/:/, "\\\\:", text); return text }
    function action(i) {
        if (gives[i] == "") return ""
        if (gives[i] == "@methods") return ":policy:{compadd -a methods}"
        if (gives[i] == "@none") return ":" tolower(meta[i]) ": "
        if (gives[i] ~ /^@/) return ":" tolower(meta[i]) ":_files"
        return ":" tolower(meta[i]) ":(" gives[i] ")"
    }
    END {
        print "#compdef kvcull"
        print "# kvcull for zsh. Made by tools/completions.sh; edit the tables of options instead."
        print "local -a commands methods"
        printf "methods=(%s)\n", substr(methods, 2)
        print "commands=("
        for (i = 1; i <= ncommands; i++) print "    '\''" commands[i] ":" quoted(about[commands[i]]) "'\''"
        print ")"
        print "if ((CURRENT == 2)); then"
        print "    _describe command commands"
        print "    return"
        print "fi"
        print "local command=$words[2]"
        print "shift words"
        print "((CURRENT--))"
        print "if [[ $command == eval && $CURRENT -gt 2 ]]; then"
        print "    case $words[2] in"
        for (i = 1; i <= count; i++) if (of[i] ~ / / && !(of[i] in seen)) { seen[of[i]] = 1; print "    " substr(of[i], 6) ") command=\"" of[i] "\" ;;" }
        print "    esac"
        print "fi"
        print "case $command in"
        for (i = 1; i <= count; i++) {
            if (i == 1 || of[i] != of[i - 1]) print "\"" of[i] "\")\n    _arguments -s -S \\"
            star = meta[i] == "SPEC" || kind[i] == "text" ? "*" : ""
            if (letter[i] != "-") print "        '\''" star "-" letter[i] "[" quoted(help[i]) "]" action(i) "'\'' \\"
            if (name[i] != "-") print "        '\''" star "--" name[i] "[" quoted(help[i]) "]" action(i) "'\'' \\"
            if (i == count || of[i] != of[i + 1]) {
                more = words[of[i]] == "" ? "_files" : "{compadd" words[of[i]] (of[i] == "info" ? "; compadd -a methods" : "") "}"
                print "        '\''--help[print the options]'\'' '\''*:word:" more "'\''\n    ;;"
            }
        }
        print "help) _describe command commands ;;"
        print "esac"
    }' "$table" >"$folder/zsh/_kvcull"

awk -F '\t' "$common"'
    function quoted(text) { gsub(/\\/, "\\\\", text); gsub(/'\''/, "\\'\''", text); return "'\''" text "'\''" }
    END {
        print "# kvcull for fish. Made by tools/completions.sh; edit the tables of options instead."
        printf "set -l methods %s\n", substr(methods, 2)
        for (i = 1; i <= ncommands; i++) {
            print "complete -c kvcull -n __fish_use_subcommand -f -a " commands[i] " -d " quoted(about[commands[i]])
            all = all " " commands[i]
        }
        print "complete -c kvcull -n __fish_use_subcommand -f -a help"
        print "complete -c kvcull -n \"__fish_seen_subcommand_from help\" -f -a \"" substr(all, 2) "\""
        print "complete -c kvcull -l help -d \"print the options\""
        for (i = 1; i <= ncommands; i++) if (words[commands[i]] != "")
            print "complete -c kvcull -n \"__fish_seen_subcommand_from " commands[i] "\" -a \"" substr(words[commands[i]], 2) "\""
        print "complete -c kvcull -n \"__fish_seen_subcommand_from methods\" -f -a \"$methods\""
        for (i = 1; i <= count; i++) if (split(of[i], part, " ") == 2 && !(of[i] in seen)) { seen[of[i]] = 1; without[part[1]] = without[part[1]] " " part[2] }
        for (i = 1; i <= count; i++) {
            if (split(of[i], part, " ") == 2)
                condition = "__fish_seen_subcommand_from eval; and __fish_seen_subcommand_from " part[2]
            else condition = "__fish_seen_subcommand_from " of[i] (of[i] in without ? "; and not __fish_seen_subcommand_from" without[of[i]] : "")
            line = "complete -c kvcull -n \"" condition "\""
            if (letter[i] != "-") line = line " -s " letter[i]
            if (name[i] != "-") line = line " -l " name[i]
            if (gives[i] == "@methods") line = line " -x -a \"$methods\""
            else if (gives[i] == "@none") line = line " -x"
            else if (gives[i] ~ /^@/) line = line " -r"
            else if (gives[i] != "") line = line " -x -a \"" gives[i] "\""
            print line " -d " quoted(help[i])
        }
    }' "$table" >"$folder/fish/kvcull.fish"
