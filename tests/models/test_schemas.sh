#!/bin/sh
# Random answers to random JSON schemas, judged by the package jsonschema. PYTHON is an interpreter that has it. SCHEMA_SUITE
# names a folder of JSON-Schema-Test-Suite with the tests of one draft, which are then read, too.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${PYTHON:-python3}
"$python" -c 'import jsonschema' 2>/dev/null || { echo "skipped: $python has no package jsonschema; PYTHON names another"; exit 77; }
for tokenizer in gpt2 sentencepiece; do
    if "$python" "$source/tests/models/test_schemas.py" "$top_builddir/tests/models/grammar_answers" \
        "$source/tests/data/tokenizers/$tokenizer/vocab.gguf" ${SCHEMA_SUITE:+"$SCHEMA_SUITE"} >"$work/out" 2>&1; then
        good
    else
        bad "$tokenizer"
        cat "$work/out"
    fi
    tail -n 2 "$work/out"
done
finish
