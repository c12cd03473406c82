#!/bin/sh
# Calls of functions: tools, tool_choice, the forms in which models write calls.
. "${top_srcdir:-.}/tests/serve/lib.sh"
bytes_model "$work/bytes"
cat >"$work/bare.jinja" <<'END'
{%- if tools %}tools={% for t in tools %}{{ t.function.name }}{{ ' ' if not loop.last }}{% endfor %};{% endif %}
{%- for m in messages %}{{ m.role }}: {{ m.content if m.content is not none }}
{%- for c in m.tool_calls or [] %}call {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}
{% endfor %}
END
{ echo '{%- if tools %}Write <tool_call> before a call. {% endif %}'; cat "$work/bare.jinja"; } >"$work/tagged.jinja"
for form in tagged bare; do
    serve $form -m "$work/bytes" --chat-template-file "$work/$form.jinja" --name demo --mem 256M -q
    client test_tools.py "$url" $form
    that "$form: nothing went wrong" [ ! -s "$work/$form.err" ]
done
finish
