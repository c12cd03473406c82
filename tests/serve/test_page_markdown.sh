#!/bin/sh
# Markdown in the page at /, well meant and hostile, and the page without its library.
. "${top_srcdir:-.}/tests/serve/lib.sh"
a_browser
serve plain -m "$demo" --template chatml --name demo -q
client page_markdown.py "$browser" "$url" "$work"
grep '^built without' "$work/client"

# The generator: the page works without a library, and a script that would end its element is refused.
page=$source/serve/page
echo 'a = "</SCRIPT>"' >"$work/bad.js"
that 'no library: one script' [ "$(sh "$page/embed.sh" "$page/page.html" "$page/page.css" '' "$page/util.js" | grep -c '<script nonce')" = 1 ]
if sh "$page/embed.sh" "$page/page.html" "$page/page.css" "$work/bad.js" "$page/util.js" >"$work/out" 2>"$work/err"; then
    bad 'a tag in a script is not refused'
else
    that 'a tag in a script is refused' grep -q 'bad.js contains a tag' "$work/err"
fi
finish
