#!/bin/sh
# demo.sh - what `./dev demo` shows: one text and each method's answer, then accuracy beside bytes.
set -eu
cd "$(dirname "$0")/.."
kvcull=${KVCULL:-build/kvcull}
model=data/demo

echo 'A small model answers from texts of 1024 tokens while its cache is bounded. --kv chooses the policy, and the'
echo 'budget counts the entries kept for every layer and head. Seen: the question ends the prompt that a policy'
echo 'compresses; unseen: it compresses the text alone, and the question comes as the next turn. The first text is'
echo 'shown with every answer:'
echo
exec "$kvcull" eval needle -m "$model" --ask both --show 1 --length 1024 --texts 6 --seed 7 \
    --kv full \
    --kv streaming:budget=64 --kv streaming:budget=128 --kv streaming:budget=256 \
    --kv snapkv:budget=64 --kv snapkv:budget=128 --kv snapkv:budget=256 \
    --kv morphkv:budget=64 --kv morphkv:budget=128 --kv morphkv:budget=256 "$@"
