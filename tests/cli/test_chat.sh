#!/bin/sh
# The commands of a chat: /help, /stats, /policy, /clear, /save, /load, /exit; what a terminal shows.
. "${top_srcdir:-.}/tests/cli/lib.sh"

# The demo model's tokenizer splits at blanks, so the template puts blanks around each message.
echo '{%- for m in messages %} {{ m.content }} . {% endfor %}' >"$work/template"
# says LINES [OPTIONS...]: a chat of these lines; its answers in $work/out, its messages in $work/err.
says() {
    lines=$1
    shift
    # shellcheck disable=SC2059
    printf "$lines" | kv chat -m "$demo" --chat-template-file "$work/template" --backend ref --temp 0 -n 6 "$@" >"$work/out" 2>"$work/err" ||
        bad "chat: $lines"
}
# same NAME: the answers are those of the last `cp "$work/out" "$work/wanted"`.
same() { that "$1" cmp -s "$work/out" "$work/wanted"; }

says 'the magic number\nthe old sailor\nand then\n' -q
cp "$work/out" "$work/wanted"
says 'the magic number\nthe old sailor\n/policy full\nand then\n' -q
same 'the same policy reads the same conversation'
has_err() { that "$1" grep -q -e "$1" "$work/err"; }
has_err 'reread the conversation'
says "the magic number\nthe old sailor\n/save $work/talk\n/clear\nanother\n/load $work/talk\nand then\n" -q
sed 3d "$work/out" >"$work/without" && cp "$work/without" "$work/out"
same 'a saved conversation goes on'
has_err "(saved to $work/talk)"
has_err "(goes on with $work/talk, policy full)"

says 'the red kettle\n' -q
cp "$work/out" "$work/wanted"
says 'the magic number\n/clear\nthe red kettle\n/exit\nnot read\n' -q
sed 1d "$work/out" >"$work/without" && cp "$work/without" "$work/out"
same 'a new conversation knows nothing of the old one'
says 'the red kettle\n' -q --system 'the sailor'
cp "$work/out" "$work/wanted"
says 'the magic number\n/clear\nthe red kettle\n' -q --system 'the sailor'
sed 1d "$work/out" >"$work/without" && cp "$work/without" "$work/out"
same 'but keeps the system message'

# The penalties forget the old conversation, and the random numbers begin again.
for penalty in '--repeat-penalty 5' '--temp 1 --seed 7'; do
    # shellcheck disable=SC2086
    says 'the red kettle\n' -q $penalty
    cp "$work/out" "$work/wanted"
    # shellcheck disable=SC2086
    says 'the old sailor found the magic number\n/clear\nthe red kettle\n' -q $penalty
    sed 1d "$work/out" >"$work/without" && cp "$work/without" "$work/out"
    same "/clear: as a new chat, with $penalty"
done

says 'the red kettle\n/policy\n/policy streaming:budget=40\n/policy\n/stats\nand then\n' -q
that 'the policy is printed' [ "$(grep -xc 'full\|streaming:budget=40' "$work/err")" = 2 ]
has_err '^cache .* at peak (streaming:budget=40)'
has_err '^answer  0 tokens'

# ---- the file of --session
says 'one\n/clear\ntwo\n' -q --session "$work/kept"
has_err 'no longer saving to'
cp "$work/kept" "$work/before"
says "/clear\nthree\n" -q --session "$work/kept"
that '/clear leaves the file of --session as it is' cmp -s "$work/kept" "$work/before"
says "/clear\nthree\n/save $work/kept\nfour\n" -q --session "$work/kept"
that '/save replaces it, and later answers are saved' grep -aq 'four' "$work/kept"

# ---- messages of several lines
says "one \\\\\ntwo\n/save $work/lines\n/clear\n\"\"\"\nthree\n\nfour\n\"\"\"\n/save $work/block\n/clear\n\"\"\"five\nsix" -q
that 'a line that ends in a backslash goes on' grep -aqF '"one \ntwo"' "$work/lines"
that 'lines between quotation marks are one message' grep -aqF '"three\n\nfour"' "$work/block"
that 'the input may end within them' [ "$(wc -l <"$work/out")" = 3 ]

# ---- mistakes: the chat goes on
says '/nosuch\n/help me\n/save\n/save x\n/load\n/load /nosuch/file\n/policy nosuch\n/help\nthe red kettle\n' -q
for text in '/nosuch: no such command' '/help: takes no argument' '/save FILE: name the file' 'send a message first' \
    '/load FILE: name the file' '/nosuch/file: ' "policy 'nosuch' is unknown" '^/stats  *prints'; do
    has_err "$text"
done
that 'the message is answered' [ -s "$work/out" ]
ok run -m "$demo" -p 'the red kettle' -n 3 --save "$work/plain" -q
says "the magic number\n/load $work/plain\nthe red kettle\n" -q
has_err 'holds no conversation'
that 'and a new conversation begins' [ "$(wc -l <"$work/out")" = 2 ]

# ---- a full context
echo 'the red kettle' | kv chat -m "$demo" --chat-template-file "$work/template" --ctx 30 -n -1 --ignore-eos -q \
    >"$work/out" 2>"$work/err"
that 'a chat ends where its context is full' [ $? = 2 ]
has_err '--ctx 30: the context is full; give a larger --ctx'
that 'after the answer' [ "$(wc -w <"$work/out")" -gt 10 ]

# ---- a terminal
if command -v script >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    command="$program chat -m $demo --chat-template-file $work/template --temp 0 -n 6 --session $work/kept"
    printf 'the red kettle\n/exit\n' | TERM=xterm script -qec "$command" /dev/null >"$work/out" 2>&1
    esc=$(printf '\033')
    has '^> four'
    has "$esc\[2m.* tokens/s; the cache holds .*, full would hold .*$esc\[0m"
    printf 'the red kettle\n/exit\n' | NO_COLOR=1 TERM=xterm script -qec "$command" /dev/null >"$work/out" 2>&1
    has 'tokens/s; the cache holds'
    that 'NO_COLOR: no colours' [ "$(grep -c "$esc\[[0-9;]*m" "$work/out")" = 0 ]
else
    echo 'skipped: no script (bsdutils): what a terminal shows'
fi
finish
