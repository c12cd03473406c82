#!/bin/sh
# Help, manual and info: they work for every command, fit 100 columns, and the tracked pages are current.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

ok --help
has 'Usage: kvcull COMMAND'
narrow
ok --version
has '^kvcull [0-9.]* (arithmetic [0-9]*)$'
ok help
ok help run
has 'Usage: kvcull run'
commands=$(kv --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p')
that 'fifteen commands' [ "$(echo "$commands" | wc -l)" = 15 ]
for command in $commands; do
    ok "$command" --help
    has "Usage: kvcull $command"
    has 'Examples:\|Tasks:'
    narrow
    ok "$command" --version
done
ok eval --help
has '^  scb_niah_requests$' # a name longer than its column has its description on the next line
sed -n '/^Tasks:$/,/^`kvcull/p' "$work/out" | sed -n '/^  /p' >"$work/tasks"
that 'each description begins in its column' \
    [ "$(grep -cv '^  [^ ]*$\|^  .\{16\} [^ ]\|^ \{19\}[^ ]' "$work/tasks")" = 0 ]
ok eval needle --help
has 'Usage: kvcull eval needle'
narrow

# The pages of docs/reference equal those that the program generates now; `make pages` writes them.
sh "$source/tools/pages.sh" "$program" "$source" "$work"
for page in docs/reference/models.md docs/reference/server.md; do
    that "a table of $page is old: make pages" cmp -s "$work/$page" "$source/$page"
done
for page in "$work"/docs/reference/methods/* "$work/docs/reference/methods.md"; do
    name=${page#"$work"/docs/}
    that "docs/$name is old: make pages" cmp -s "$page" "$source/docs/$name"
done
types=python/kvcull/policy.pyi
[ ! -e "$work/$types" ] || that "$types is old: make pages" cmp -s "$work/$types" "$source/$types"
for page in "$source"/docs/reference/methods/*; do
    name=${page#"$source"/docs/}
    that "docs/$name is of nothing: make pages" [ -e "$work/docs/$name" ]
done

ok info
has '^ref  *yes'
has '^cpu  *yes'
narrow
ok info backends --json
that 'a list of backends' [ "$(json backends.0.usable)" = true ]
ok info methods
for method in full window streaming snapkv morphkv; do has "^$method "; done
has '^morphkv  *prompt, decode  '
has '^morphkv  *C + R entries'
has '^morphkv  *C + R + 1 entries per generated token'
has '^morphkv  *MorphKV, arXiv:2503.00979$'
narrow
for method in full window streaming snapkv morphkv; do
    ok info methods $method
    has "^$method - "
    narrow
done
has '^    window  *32  *1 to 4096'
fails 2 "did you mean morphkv" info methods morphk --man
ok info methods morphkv --json
that 'the page as JSON' [ "$(json name)" = morphkv ]
that 'its options' [ "$(json options.0.name)" = budget ]
that 'a needed option has no default' [ "$(json options.0.default)" = null ]
ok info methods --json
that 'all as JSON' [ "$(json methods.0.name)" = full ]
for text in stages paper memory traffic; do that "$text as JSON" [ -n "$(json methods.1.$text)" ]; done
ok info shapes
has '^llama-3.2-1b '
narrow
ok info families
has '^OLMo 2  *olmo2  *olmo2$'
narrow
ok info families --json
that 'families as JSON' [ "$(json families.0.gguf)" = llama ]
ok info templates
has '^llama3 '
narrow

ok info "$demo"
has '^parameters  *862,592'
has 'query heads over 2 key-value heads, head size 32'
has '^full .*yes'
narrow
ok info "$source/tests/data/golden/qwen3-moe"
has '^parameters  *57,632, 33,440 of them active for a token'
has '^experts  *11 in each layer, 3 of them for a token: 65.3 KiB of the weights'
narrow
ok info "$source/tests/data/golden/qwen3-moe" --json
that 'experts as JSON' [ "$(json experts) $(json experts_used) $(json active_bytes)" = '11 3 66880' ]
ok info "$source/tests/data/golden/qwen2-moe-dense"
has '^layers  *5 of width 24, feed-forward 12, 38 in layers without experts$'
has '^experts  *5 in 1 of 5 layers'
ok info "$source/tests/data/golden/qwen3-next"
has '^recurrent  *2 gated delta nets between these; a session keeps 8.75 KiB'
ok info "$source/tests/data/golden/mistral-window"
has '^sliding window  *7 tokens$'
ok info "$demo" --math int16
has '^in memory  *[0-9.]* MiB, of which [0-9.]* MiB are matrices in int16$'
ok info "$demo" --json
that 'a model without experts' [ "$(json experts) $(json active_parameters)" = '0 862592' ]
ok info "$demo" --prompt 2048 --gen 100 --kv full --kv 'morphkv:budget=600,window=64,fusion=max,every=4' --mem 8G
has '^morphkv:budget=600'
narrow
ok info "$demo" --json --prompt 1000 --gen 0
that 'numbers are numbers' [ "$(json layers)" = 4 ]
# 4 layers, 2 heads, keys and values of 32 halves, in blocks of 256 entries
that 'cache bytes of 1000 tokens' [ "$(json policies.0.cache_bytes)" = $((4 * 2 * 1024 * 2 * 32 * 2)) ]
kv info "$demo" --mem 1M >"$work/out" 2>"$work/err"
that 'what does not fit is 1' [ $? = 1 ]
has '^full .* no '
finish
