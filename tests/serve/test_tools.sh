#!/bin/sh
# Calls of functions: tools, tool_choice, the forms in which models write calls.
. "${top_srcdir:-.}/tests/serve/lib.sh"
bytes_model "$work/bytes"
tools_template "$work/bare.jinja"
{ echo '{%- if tools %}Write <tool_call> before a call. {% endif %}'; cat "$work/bare.jinja"; } >"$work/tagged.jinja"
for form in tagged bare; do
    serve $form -m "$work/bytes" --chat-template-file "$work/$form.jinja" --name demo --mem 256M -q
    client test_tools.py "$url"
    that "$form: nothing went wrong" [ ! -s "$work/$form.err" ]
done
"$python" "$source/tests/serve/test_required.py" template >"$work/forms.jinja" || bad 'no template of forms'
serve forms -m "$work/bytes" --chat-template-file "$work/forms.jinja" --name forms --mem 256M -q
client test_required.py "$url"
that 'forms: nothing went wrong' [ ! -s "$work/forms.err" ]
scripts_server
client test_answers.py "$url"
that 'scripts: nothing went wrong' [ ! -s "$work/scripts.err" ]
for template in "$KVCULL_SHARED"/templates/*.jinja; do
    [ -f "$template" ] || { echo "skipped: no \$KVCULL_SHARED/templates: real models' templates" && break; }
    rm -rf "$work/family"
    cp -r "$work/scripts" "$work/family"
    case $template in
    *tool_use*) # besides the default template of its model
        mkdir "$work/family/additional_chat_templates"
        cp "$template" "$work/family/additional_chat_templates/tool_use.jinja"
        ;;
    *) cp "$template" "$work/family/chat_template.jinja" ;;
    esac
    serve family -m "$work/family" --date 2025-01-02 --mem 256M -q
    client test_families.py "$url" "$template"
done
finish
