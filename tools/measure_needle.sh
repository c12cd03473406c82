#!/bin/sh
# measure_needle.sh - measures every method at several budgets on the bundled model, and writes a page of
# docs/measured/.
#
#     tools/measure_needle.sh [BUILD_FOLDER [TEXTS [BUDGETS]]] > docs/measured/needle.md
set -u
build=${1:-build}
texts=${2:-20}
budgets=${3:-64 128 256 512}
demo=$(dirname "$0")/../data/demo
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# one line per layer, one number per KV head: half of the heads stream
printf '0.9\t0.1\n0.1\t0.9\n0.9\t0.1\n0.1\t0.9\n' >"$work/duo.tsv"

specs() { # BUDGET
    for method in window streaming h2o scissorhands keyformer tova morphkv; do
        printf -- '--kv %s:budget=%s ' "$method" "$1"
    done
    for method in snapkv pyramidkv adakv cake dapq; do
        printf -- '--kv %s:budget=%s ' "$method" "$1"
    done
    printf -- '--kv fastkv:budget=%s,tsp=1000 ' "$1"
    printf -- '--kv take:budget=%s,chunk=512 ' "$1"
    printf -- '--kv lacache:budget=%s,span=2,sinks=16 ' "$1"
    for method in quest sparq hsa rocketkv rocketkv-mt topk; do
        printf -- '--kv %s:budget=%s ' "$method" "$1"
    done
    printf -- '--kv snapkv:budget=%s+morphkv:budget=%s ' "$1" "$1"
    # settings that influence the order: pooling, and morphkv's fusion of rows
    printf -- '--kv snapkv:budget=%s,kernel=1 --kv dapq:budget=%s,content=ends,pseudo=32,kernel=1 ' "$1" "$1"
    printf -- '--kv take:budget=%s,chunk=512,pooling=max,kernel=7 --kv morphkv:budget=%s,fusion=max ' "$1" "$1"
}

printf '# Every method on the bundled model\n\n'
printf 'Written by `tools/measure_needle.sh` on %s with %s: texts of 2,000 tokens, %s of them in each cell, F16 cache.\n' \
    "$(date -u +%Y-%m-%d)" "$("$build/kvcull" --version | head -n 1)" "$texts"
printf '`one`: every fact asked for after the whole text (2 facts); `answer`: eight questions within one answer; `turns`: eight turns.\n'
printf 'A cell is the share of exact answers. Bytes are of the `answer` run: cache and state held after the prompt, cache bytes\n'
printf 'read per token. Each row is `kvcull eval needle -m data/demo --length 2000 --texts %s --ask HOW --depths N --kv SPEC`,\n' "$texts"
printf 'N 2 for `one` and 8 for the others. heads.tsv: one KV head of each layer keeps all, the other streams (0.9 0.1, 0.1 0.9, ...).\n'

run() { # BUDGET HOW DEPTHS
    # shellcheck disable=SC2046
    "$build/kvcull" eval needle -m "$demo" -q --length 2000 --texts "$texts" --ask "$2" --depths "$3" --json \
        --kv full $(specs "$1") --kv "duo:file=$work/duo.tsv,sinks=16,recent=$1" >"$work/$1.$2.json" || exit 1
}

for budget in $budgets; do
    run $budget one 2
    run $budget answer 8
    run $budget turns 8
    printf '\n## Budget %s\n\n| method | one | answer | turns | held | read/token |\n|---|---|---|---|---|---|\n' $budget
    # makes a table from three JSON files, whose results have the same order
    awk -v dir="$work/duo.tsv" '
        /"kv":/ { text = $0; sub(/.*"kv": "/, "", text); sub(/",?$/, "", text); gsub(dir, "heads.tsv", text); kv = text }
        /"accuracy":/ { v = $2; sub(",", "", v); accuracy = v }
        /"held_bytes":/ { v = $2; sub(",", "", v); held = v }
        /"read_bytes_per_token":/ { v = $2; sub(",", "", v); read = v }
        /"seconds":/ { n[FILENAME]++; i = n[FILENAME]; name[i] = kv; a[FILENAME, i] = accuracy
                       h[FILENAME, i] = held; r[FILENAME, i] = read; most = i }
        END { for (i = 1; i <= most; i++)
                  printf "| %s | %.2f | %.2f | %.2f | %.0f KiB | %.0f KiB |\n", name[i], a[ARGV[1], i], a[ARGV[2], i],
                         a[ARGV[3], i], h[ARGV[2], i] / 1024, r[ARGV[2], i] / 1024 }' \
        "$work/$budget.one.json" "$work/$budget.answer.json" "$work/$budget.turns.json"
done
