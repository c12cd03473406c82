#!/bin/sh
# Completions of bash, zsh and fish: the words that bash offers; and zsh and fish, if installed, read their files.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
files=$build/docs/completions
# offers WORDS...: what bash offers for the last word of a command line.
offers() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kvcull; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$files/bash/kvcull" "$@" >"$work/out" 2>"$work/err"
}
# some WORD...: these words are among those offered.
some() { for word; do that "'$word' is offered" grep -qx -e "$word" "$work/out"; done; }
none() { that "'$1' is not offered" sh -c '! grep -qx -e "$1" "$2"' sh "$1" "$work/out"; }
if command -v bash >/dev/null; then
    offers kvcull ''
    some run chat eval bench verify replay info help
    offers kvcull ru
    is run
    offers kvcull run --k
    some --kv --kv-type
    none --temp
    offers kvcull run -
    some --threads --model --help
    offers kvcull run --kv ''
    for method in $("$program" info methods --json -q | sed -n 's/^ *"name": "\([a-z0-9-]*\)",*$/\1/p' | grep -x -e snapkv -e tova -e full); do
        some "$method"
    done
    offers kvcull run --kv-type q
    some q8_0 q4_0 q4h q6h
    none f16
    offers kvcull convert --type ''
    some q4_k f16
    offers kvcull run --threads ''
    is ''
    offers kvcull eval ''
    some needle fidelity merge vt
    offers kvcull eval needle --
    some --ask --length
    offers kvcull eval --
    some --samples --out
    none --ask
    offers kvcull info ''
    some methods backends
    offers kvcull info methods snapkv-
    is snapkv-decode
    offers kvcull help v
    is verify
    (cd "$work" && : >model.gguf && offers kvcull run -m mod && grep -qx model.gguf "$work/out")
    that 'files are offered' [ $? = 0 ]
    that 'no word on standard error' [ ! -s "$work/err" ]
else
    echo 'no bash'
fi
for shell in zsh fish; do
    command -v $shell >/dev/null || { echo "no $shell"; continue; }
    $shell -n "$files"/$shell/* >"$work/out" 2>"$work/err"
    that "$shell reads its file" [ $? = 0 ]
done
# zsh_offers LINE WORD: presses the tab key in a zsh that runs in a terminal of its own.
cat >"$work/ask.zsh" <<'END_OF_ZSH'
zmodload zsh/zpty || exit 77
got=
comes() { # within a minute
    local line
    repeat 600; do
        if zpty -rt asked line; then got+=$line; else sleep 0.1; fi
        [[ $got != *$1* ]] || return 0
    done
    print -r -- "$got"
    return 1
}
zpty asked zsh -f -i
zpty -w asked "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' list-choices; print rea''dy"
comes ready || exit 1
got=
zpty -wn asked "$2"$'\t'
comes "$3"
END_OF_ZSH
zsh_offers() {
    TERM=xterm zsh -f "$work/ask.zsh" "$files/zsh" "$1" "$2" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status = 77 ] || that "zsh offers '$2' for '$1'" [ $status = 0 ]
}
if command -v zsh >/dev/null; then
    zsh_offers 'kvcull eval --k' '--kv-type'
    zsh_offers 'kvcull run --kv sn' 'snapkv-decode'
    zsh_offers 'kvcull eval needle --as' 'each fact after the whole text'
fi
if command -v fish >/dev/null; then
    fish -c ". '$files/fish/kvcull.fish'; complete -C 'kvcull run --kv-t'" >"$work/out" 2>"$work/err"
    has '^--kv-type'
    fish -c ". '$files/fish/kvcull.fish'; complete -C 'kvcull eval needle --kv sn'" >"$work/out" 2>"$work/err"
    has '^snapkv'
    fish -c ". '$files/fish/kvcull.fish'; complete -C 'kvcull eval needle --a'" >"$work/out" 2>"$work/err"
    has '^--ask'
    that "options of eval's other tasks are not offered" sh -c '! grep -q -e --alone "$1"' sh "$work/out"
fi
finish
