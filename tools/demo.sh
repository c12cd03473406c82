#!/bin/sh
# demo.sh - runs `./dev demo`: shows one text with each method's answer, then a table of accuracy and bytes.
set -eu
cd "$(dirname "$0")/.."
kvcull=${KVCULL:-build/kvcull}
model=data/demo

echo 'A small model answers questions about texts of 1024 tokens while its KV cache is bounded. --kv chooses the'
echo 'policy; a budget counts the entries kept per layer and KV head. The columns:'
echo '  seen    the question ends the prompt, and the policy evicts with the question in view (question-aware)'
echo '  unseen  the policy evicts after the text alone; the question comes as the next turn (question-agnostic)'
echo 'The first text is shown with every answer:'
echo
exec "$kvcull" eval needle -m "$model" --ask both --show 1 --length 1024 --texts 6 --seed 7 \
    --kv full \
    --kv streaming:budget=64 --kv streaming:budget=128 --kv streaming:budget=256 \
    --kv snapkv:budget=64 --kv snapkv:budget=128 --kv snapkv:budget=256 \
    --kv morphkv:budget=64 --kv morphkv:budget=128 --kv morphkv:budget=256 "$@"
