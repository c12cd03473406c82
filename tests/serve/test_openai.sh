#!/bin/sh
# The openai package of Python: plain, streaming and asynchronous.
. "${top_srcdir:-.}/tests/serve/lib.sh"
"$python" -c 'import openai' 2>/dev/null ||
    { echo 'no openai package for Python; KVCULL_PYTHON names a Python that has it'; exit 77; }
serve plain -m "$demo" --template chatml --name demo -q
words=$url
bytes_model "$work/bytes"
tools_template "$work/template"
serve bytes -m "$work/bytes" --chat-template-file "$work/template" --name bytes -q
client openai_client.py "$words" "$url"
scripts_server
client answers_client.py "$url" openai
finish
