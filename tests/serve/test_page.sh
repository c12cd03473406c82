#!/bin/sh
# The page at /: a conversation in a browser, at two widths, in light and dark mode, and the displayed cache.
. "${top_srcdir:-.}/tests/serve/lib.sh"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[ -n "$browser" ] || { echo 'no chromium: the page is not looked at'; exit 77; }
sanitized && { echo 'elsewhere: ./dev check --plain looks at the page; beside sanitizers a browser takes too long'; exit 77; }
serve plain -m "$demo" --template chatml --name demo --kv snapkv:budget=64 -q
# A proxy adds our script to the page; it acts like a user and then reports what it found.
"$python" "$source/tests/serve/page_proxy.py" "$url" "$source/tests/serve/page_check.js" >"$work/proxy" 2>&1 &
servers="$servers $!"
for _ in $(seq 200); do [ -s "$work/proxy" ] && break; sleep 0.05; done
front=$(head -n 1 "$work/proxy")

# looked_at WIDTH MODE: a picture goes to PAGE_PICTURES
looked_at() {
    set -- "$1" "$2" "${PAGE_PICTURES:-$work}/page-$1-$2.png"
    dark=
    [ "$2" = dark ] && dark=--force-dark-mode\ --enable-features=WebContentsForceDark
    # shellcheck disable=SC2086
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" $dark \
        --window-size="$1,1000" --hide-scrollbars --screenshot="$3" "$front/?$1-$2" >"$work/out" 2>"$work/err"
    that "a picture at $1, $2" [ -s "$3" ]
    that "the page at $1, $2: $(grep "^$1-$2 " "$work/proxy")" grep -q "^$1-$2 FINE" "$work/proxy"
}
looked_at 1100 light
looked_at 390 dark
finish
