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
embed() { sh "$page/embed.sh" "$page/page.html" "$page/page.css" "$@"; }
embed '' "$page/util.js" >"$work/page.c"
that 'no library: one script' [ "$(grep -c '<script nonce' "$work/page.c")" = 1 ]
# shellcheck disable=SC2086
that 'it is C' ${CC:-cc} -std=c11 -Wall -Wextra -Werror -pedantic -I"$source" -fsyntax-only "$work/page.c"
if embed "$work/bad.js" "$page/util.js" >"$work/out" 2>"$work/err"; then
    bad 'a tag in a script is not refused'
else
    that 'a tag in a script is refused' grep -q 'bad.js contains a tag' "$work/err"
fi
finish
