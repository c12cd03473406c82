# commands.awk - checks the commands that pages show: in indented and fenced blocks, and in `code` that begins with
# kvcull, ./dev or an option. The first input lists what exists: "command NAME", "option COMMAND OPTION ARGUMENT",
# "any OPTION", "method NAME", "setting METHOD OPTION", "script FILE OPTION", "job OPTION", "model NAME" and "configure
# OPTION". The other inputs are pages. Prints "FILE:LINE: COMPLAINT". Blocks fenced by ```text and blocks after a line <!-- example --> are not
# checked.
BEGIN {
    starters = "(mpirun|srun|python3|sh|time|nice|env|sudo|podman|docker|apptainer)"
    programs = "(kvcull|\\./dev|configure|tools/[a-z_.-]*|tests/golden/[a-z_]*\\.py)"
}
FNR == 1 {
    fence = unchecked = 0
    blank = 1
    part = ""
}
NR == FNR {
    there[$1 " " $2 ($3 == "" ? "" : " " $3)] = 1
    if ($1 == "option") argument[$2 " " $3] = $4
    any[$NF == "ARGUMENT" ? $3 : $NF] = 1
    next
}

function complain(text) { print FILENAME ":" FNR ": " text }

# Splits a shell command into word[1..n]; quotes hold a word together, and an unquoted | ; & # > ends the command. What
# follows | ; or & stays in `after`.
function split_words(text, i, c, quote, current, started) {
    n = 0
    after = current = quote = ""
    started = 0
    for (i = 1; i <= length(text) + 1; i++) {
        c = i > length(text) ? "" : substr(text, i, 1)
        if (c != "" && quote != "") {
            if (c == quote) quote = ""
            else current = current c
        } else if (c == "'" || c == "\"") {
            quote = c
            started = 1
        } else if (c == "" || c == " " || c ~ /[|;&>]/ || (c == "#" && !started)) {
            if (started) word[++n] = current
            current = ""
            started = 0
            if (c == "|" && n && text ~ /--[a-z-]+ *[a-z]+\|/) continue # choices, as auto|yes
            if (c ~ /[|;&]/) after = substr(text, i + 1)
            if (c != " ") return
        } else {
            current = current c
            started = 1
        }
    }
}

# A policy, as NAME:option=value,option=value+NAME:...
function check_policy(spec, count, policies, i, name, settings, j, key) {
    if (spec == "" || spec ~ /^[A-Z]+(\.\.\.)?$/ || spec ~ /^\$/) return
    count = split(spec, policies, "+")
    for (i = 1; i <= count; i++) {
        name = policies[i]
        sub(/:.*/, "", name)
        if (name !~ /^[A-Z]+$/ && !(("method " name) in there)) complain("there is no method " name)
        if (policies[i] !~ /:/) continue
        sub(/^[^:]*:/, "", policies[i])
        split(policies[i], settings, ",")
        for (j in settings) {
            key = settings[j]
            if (sub(/=.*/, "", key) && !(("setting " name " " key) in there) && !(("setting all " key) in there))
                complain(name " has no option " key)
        }
    }
}

# word[i..n] of `kvcull`.
function check_kvcull(i, command, task, option, value, equals) {
    if (i > n) return
    command = word[i]
    if (command ~ /^(COMMAND|--help|--version|--manual|help)$/) return
    if (!(("command " command) in there)) {
        complain("kvcull has no command " command)
        return
    }
    if (command == "eval" && (("command eval-" word[i + 1]) in there)) command = "eval-" word[++i]
    for (i++; i <= n; i++) {
        option = word[i]
        value = ""
        if (option !~ /^-[a-z-]/) continue
        if ((equals = index(option, "="))) {
            value = substr(option, equals + 1)
            option = substr(option, 1, equals - 1)
        }
        if (!(("option " command " " option) in there)) complain("kvcull " command " has no option " option)
        else if (argument[command " " option] != "") {
            if (!equals) value = word[++i]
            if (i > n && !mentioned) complain("kvcull " command " " option " without its argument")
            if (option == "--kv" && !(command == "verify" && value == "all")) check_policy(value)
        }
    }
}

function check_dev(i) {
    if (i > n || word[i] ~ /^(demo|build|help)$/) return
    if (word[i] == "check" || word[i] == "test") {
        if (word[i] == "test") return
        while (++i <= n)
            if (word[i] ~ /^--[a-z]/ && !(("job " word[i]) in there)) complain("./dev check has no job " word[i])
    } else if (word[i] == "model") {
        if (i < n && word[i + 1] != "NAME" && !(("model " word[i + 1]) in there))
            complain("./dev has no model " word[i + 1])
    } else
        complain("./dev has no command " word[i])
}

# A script of tools/, with the options that its source names.
function check_script(file, i, option) {
    for (i++; i <= n; i++) {
        option = word[i]
        sub(/=.*/, "", option)
        if (option ~ /^--[a-z]/ && !(("script " file " " option) in there)) complain(file " has no option " option)
    }
}

function check_configure(i, option) {
    while (++i <= n) {
        option = word[i]
        if (option !~ /^--/) continue
        sub(/=.*/, "", option)
        if (option ~ /^--(with|without|enable|disable)-/ && !(("configure " option) in there))
            complain("configure has no option " option)
    }
}

# One line of commands: the first word that is a program of the tree is looked up, whatever starts it (mpirun, python3).
function check(text, i) {
    sub(/^ *(\$ )?/, "", text)
    if (text ~ /^kvcull:/) return # a message
    while (text != "") {
        split_words(text)
        for (i = 1; i <= n; i++) {
            if (word[i] ~ /^(build\/|\.\/)?kvcull$/) check_kvcull(i + 1)
            else if (word[i] ~ /^\.\/dev$/) check_dev(i + 1)
            else if (word[i] ~ /^(.*\/)?configure$/) check_configure(i)
            else if (match(word[i], /^(\.\/|build\/)?(tools|bench)\/[a-z]/)) {
                sub(/^(\.\/|build\/)/, "", word[i])
                check_script(word[i], i)
            }
            else continue
            break
        }
        text = after
        sub(/^[|&; ]*/, "", text)
    }
}

function shown(text) {
    if (text ~ /\\$/) {
        sub(/\\$/, "", text)
        part = part text
        return
    }
    text = part text
    part = ""
    if (text ~ ("^ *([$] )?([A-Za-z_]+=[^ ]* )*(" starters " [^|]*)?[^ ]*(" programs ")( |$)")) check(text)
}

/^ *```/ {
    if (!fence) unchecked = $0 ~ /```text/ || example
    fence = !fence
    example = 0
    next
}
/^<!-- example -->/ { example = 1; next }
fence { if (!unchecked) shown($0); next }
/^    / {
    if ((blank || block) && !example) { block = 1; shown($0); next }
    if (example) { block = 1; next }
}
/^$/ { blank = 1; next }
{
    if (example && block) example = 0
    blank = block = 0
    part = ""
    rest = $0
    mentioned = 1 # an option may stand without its argument
    while (match(rest, /`(build\/)?(kvcull|\.\/dev) [^`]*`/)) {
        check(substr(rest, RSTART + 1, RLENGTH - 2))
        rest = substr(rest, RSTART + RLENGTH)
    }
    rest = $0 # an option by itself is one of any program
    while (match(rest, /`--[a-z][a-z0-9-]*/)) {
        if (!(substr(rest, RSTART + 1, RLENGTH - 1) in any))
            complain("no program has an option " substr(rest, RSTART + 1, RLENGTH - 1))
        rest = substr(rest, RSTART + RLENGTH)
    }
    mentioned = 0
}
