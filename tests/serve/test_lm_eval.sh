#!/bin/sh
# The client lm-eval with `local-completions`, on a small task from local files. Its scores equal our own.
. "${top_srcdir:-.}/tests/serve/lib.sh"
"$python" -c 'import lm_eval, aiohttp, tenacity, transformers' 2>/dev/null ||
    { echo 'no lm_eval[api] and transformers for Python; KVCULL_PYTHON names a Python that has them'; exit 77; }
serve plain -m "$demo" --name demo -q
mkdir "$work/task"
client lm_eval_client.py "$url" "$program" "$demo" "$work/task"
finish
