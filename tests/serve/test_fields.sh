#!/bin/sh
# Optional fields of requests: fields without effect, unknown ones, null, the server's own messages, lengths.
. "${top_srcdir:-.}/tests/serve/lib.sh"

serve lenient -m "$demo" --template chatml --name demo --mem 64M
client test_fields.py "$url" lenient
that 'the log names ignored fields' grep -q 'ignored unknown fields of a request: frobnicate, chat_id$' "$work/lenient.err"
that 'and nothing else' [ "$(wc -l <"$work/lenient.err")" = 1 ]
serve strict -m "$demo" --template chatml --name demo --mem 64M --strict --strict-model -q
client test_fields.py "$url" strict

# ---- lengths of answers
serve lengths -m "$demo" --name demo --mem 256M --max-tokens 7 --tokens 300 -q
client test_fields.py "$url" lengths

# ---- answers without a limit: some fit in memory at once, but not all together
serve memory -m "$demo" --name demo --ctx 400 --mem 1M --keep 2 -q
client test_fields.py "$url" memory

# ---- the variables that templates get
bytes_model "$work/templated"
cat >"$work/templated/chat_template.jinja" <<'END'
{%- for m in messages %}<{{ m.role }}
{%- if m.content is defined %} {{ 'none' if m.content is none else m.content }}{% else %} undefined{% endif %}
{%- for key in ['refusal', 'audio', 'annotations', 'reasoning_content', 'function_call', 'mood'] %}
{%- if m[key] is defined %} {{ key }}={{ m[key] }}{% endif %}{% endfor %}
{%- for call in m.tool_calls or [] %} {{ call.function.name }}{{ call.function.arguments | tojson }}
{%- if call.index is defined %} index{% endif %}{% endfor %}>{% endfor %}
{%- if reasoning_effort is defined %} effort={{ reasoning_effort }}{% endif %}
{%- if quiet is defined and quiet is none %} quiet{% endif %}
END
serve templated -m "$work/templated" -q
client test_fields.py "$url" templated

# ---- templates of real models, compared with jinja2
if [ -d "$KVCULL_SHARED/templates" ] && "$python" -c 'import jinja2' 2>/dev/null; then
    for template in "$KVCULL_SHARED"/templates/*.jinja; do
        cp "$template" "$work/templated/chat_template.jinja"
        serve "$(basename "$template")" -m "$work/templated" --date 2025-06-30 -q
        client test_fields.py "$url" beside_jinja2 "$template"
        kill -TERM $pid
    done
else
    echo 'skipped: no $KVCULL_SHARED/templates or no jinja2 for Python: templates beside jinja2'
fi
finish
