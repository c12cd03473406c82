#!/bin/sh
# Other common clients for Python: litellm, langchain-openai and llm.
. "${top_srcdir:-.}/tests/serve/lib.sh"
serve plain -m "$demo" --template chatml --name demo -q
words=$url
bytes_model "$work/bytes"
tools_template "$work/template"
serve bytes -m "$work/bytes" --chat-template-file "$work/template" --name bytes -q
bytes=$url
scripts_server
found=
for package in litellm langchain_openai llm; do
    if HOME=$work "$python" -c "import $package" 2>/dev/null; then
        found=1
        HOME=$work client more_clients.py "$words" "$bytes" $package
        [ $package = llm ] || HOME=$work client answers_client.py "$url" $package
    else
        echo "skipped: no $package for Python; KVCULL_PYTHON names one that has it"
    fi
done
[ -n "$found" ] || { echo 'skipped: no litellm, langchain-openai or llm for Python; KVCULL_PYTHON names a Python that has them'; exit 77; }
that 'nothing was ignored that they send' [ ! -s "$work/plain.err" ] && [ ! -s "$work/bytes.err" ] && [ ! -s "$work/scripts.err" ]
finish
