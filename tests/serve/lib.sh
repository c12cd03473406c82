# lib.sh - shared by the server's tests: tests/cli/lib.sh, a Python, and servers that end with the test.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${KVCULL_PYTHON-python3}
command -v "$python" >/dev/null 2>&1 || { echo 'no python3'; exit 77; }
servers=
# Waits silently: bash reports a killed server, and ./dev would take that line for the reason of a skipped test. Servers
# that end by themselves (KVCULL_TEST_SIGNAL=TERM) write what ./dev check --coverage counts.
trap 'for pid in $servers; do { kill -"${KVCULL_TEST_SIGNAL-KILL}" "$pid"; wait "$pid"; } 2>/dev/null; done; chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

# serve NAME ARGUMENTS...: starts a server; $url is its address, $pid its process, $work/NAME.err its standard error.
serve() {
    name=$1
    shift
    : >"$work/$name.out"
    "$program" serve --port 0 "$@" >"$work/$name.out" 2>"$work/$name.err" &
    pid=$!
    servers="$servers $pid"
    for _ in $(seq 600); do
        url=$(sed -n 's/^listening on \([^ ]*\) .*/\1/p' "$work/$name.out")
        [ -n "$url" ] && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/$name.err"
    bad "the server $name does not listen"
    finish
}

# client SCRIPT ARGUMENTS...: runs a client whose cases count as the test's.
client() {
    script=$1
    shift
    if "$python" "$source/tests/serve/$script" "$@" >"$work/client" 2>&1; then
        passed=$((passed + $(sed -n 's/^\([0-9]*\) cases$/\1/p' "$work/client")))
    else
        failed=$((failed + 1))
        tail -n 40 "$work/client"
    fi
}

# bytes_model FOLDER: makes a copy of the demo model whose tokens are bytes.
bytes_model() {
    "$python" "$source/tests/serve/bytes_model.py" "$demo" "$1" || bad 'no model of bytes'
}
# scripts_server: starts a server whose model writes the answers of scripts.py.
scripts_server() {
    "$python" "$source/tests/serve/script_model.py" "$work/scripts" || bad 'no model of scripts'
    serve scripts -m "$work/scripts" --name scripts -q
}
# tools_template FILE: a chat template that names the functions of a request and writes earlier calls.
tools_template() {
    cat >"$1" <<'END'
{%- if tools %}tools={% for t in tools %}{{ t.function.name }}{{ ' ' if not loop.last }}{% endfor %};{% endif %}
{%- for m in messages %}{{ m.role }}: {{ m.content if m.content is not none }}
{%- if m.reasoning_content %}thought: {{ m.reasoning_content }}{% endif %}
{%- for c in m.tool_calls or [] %}call {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}
{% endfor %}
END
}
# a_browser: sets $browser, or skips the test.
a_browser() {
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
    [ -n "$browser" ] || { echo 'no chromium: the page is not looked at'; exit 77; }
    sanitized && { echo 'elsewhere: ./dev check --plain looks at the page; beside sanitizers a browser takes too long'; exit 77; }
}
