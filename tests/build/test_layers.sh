#!/bin/sh
# Includes follow the layers of docs/explanation/design.md. core names no model family, and a backend names no policy.
# The project has no tabs and no long lines.
cd "$top_srcdir" || exit 1
bad=0

# FOLDER: what its files may include (folders or single headers) besides the public headers (kvcull.h, kvcull/...) and
# the system's. The longest matching FOLDER applies. The makefile includes config.h in every file.
rules='
core/base: core/base
core/engine: core/base core/engine core/stage core/ranks
core/stage: core/base core/engine core/stage core/ranks
core/forecast: core/base core/engine core/stage core/forecast
core/ranks: core/base core/ranks
ranks: core/base core/ranks models/model.h ranks
core/check: core/base core/engine core/check
backends: core/base
backends/kernels: core/base backends/kernels
backends/offload: core/base backends/kernels backends/offload
backends/opencl: core/base backends/offload backends/opencl
backends/cuda: core/base backends/kernels backends/offload backends/cuda
backends/cpu: core/base backends/cpu
backends/cpu/ref: core/base backends/cpu/cpu.h backends/cpu/ref
policies: core/base policies
models: core/base core/engine core/ranks models
models/files: core/base models/files models/tokenizer/parts.h
models/tokenizer: core/base/assert.h models/files models/tokenizer
models/grammar: core/base core/engine/sampler.h models/files/json.h models/model.h models/tokenizer/parts.h models/grammar
models/jinja: core/base/assert.h models/files/json.h models/tokenizer/parts.h models/jinja
models/chat: core/base/assert.h models/files/json.h models/tokenizer models/jinja/jinja.h models/chat
models/config: core/base core/engine/network.h models/files models/config
models/session: core/base core/engine models/files/output.h models/fingerprint.h models/model.h models/session
models/convert: core/base core/engine models/files models/config models/tokenizer models/convert
cli: core/base/assert.h cli
cli/eval.c: core/base/assert.h cli eval/eval.h
cli/serve.c: core/base/assert.h cli serve/options.h
eval: core/base/assert.h cli/cli.h eval
serve: core/base/assert.h cli/cli.h cli/info/info.h serve
examples:
bench: core/base core/engine policies/select_sizes.h bench
tests: core backends bench policies models cli eval ranks serve tests
include: include'

files=$(find core backends policies models cli eval ranks serve examples bench tests include -name '*.[ch]' -o -name '*.inc' \
    -o -name '*.cc' -o -name '*.cu' | sort)
# shellcheck disable=SC2086
grep -nE '^ *# *include *"' $files | awk -v rules="$rules" '
BEGIN {
    count = split(rules, line, "\n")
    for (i = 1; i <= count; i++)
        if (split(line[i], part, ":") == 2)
            may[part[1]] = part[2] " "
}
{
    split($0, part, ":"); file = part[1]
    match($0, /"[^"]*"/); what = substr($0, RSTART + 1, RLENGTH - 2)
    if (what ~ /^kvcull(\.h|\/)/ || what == "config.h")
        next
    for (folder = file; !(folder in may); )
        if (!sub(/\/[^\/]*$/, "", folder)) {
            print file ": its folder is in no rule"; wrong = 1
            next
        }
    for (name = what; name != ""; )
        if (index(" " may[folder], " " name " "))
            next
        else if (!sub(/\/[^\/]*$/, "", name))
            break
    print file ":" part[2] ": includes " what ", but " folder " may include only:" may[folder]; wrong = 1
}
END { exit wrong }' || bad=1

# none FOLDERS PATTERN WHY: no C file of these folders may match.
none() {
    for folder in $1; do
        find "$folder" -name '*.[ch]' | sort | xargs -r grep -nE "$2" /dev/null | sed "s|^|$3: |" | grep . && bad=1
    done
}
none cli '#include "(eval|examples)/' 'the program finds the tasks of eval in a table (cli_eval_tasks)'
none core '"(llama|mistral|qwen[0-9]*|phi[0-9]*)"' 'core names no model family'
none core '#include <(mpi|nccl)' 'ranks/ alone calls MPI and NCCL'
none backends '"(full|window|streaming|snapkv|morphkv)"' 'a backend names no policy'
none 'cli eval ranks serve examples core backends policies models bench include tools tests' '	|[ ]$' 'tab, or blank at the end'
none 'cli eval ranks serve examples core backends policies models bench include tools tests' '^.{133,}' 'far more than 120 columns'
exit $bad
