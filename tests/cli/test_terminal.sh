#!/bin/sh
# A chat in a terminal: editing, wide and combining characters, several lines, history, what is typed during an answer,
# Ctrl-C, another size, TERM=dumb. tmux is the terminal. The tests wait for texts, never for a time.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
command -v tmux >/dev/null || { echo 'no tmux'; exit 77; }
TMUX_TMPDIR=$work
LC_ALL=C.UTF-8
export TMUX_TMPDIR LC_ALL
unset TMUX NO_COLOR
server=0 # each chat has a server of its own, because one that ends may still accept a session
terminal() { tmux -u -L "kvcull$server" -f /dev/null "$@"; }
anew() {
    terminal kill-server 2>/dev/null
    server=$((server + 1))
}
trap 'terminal kill-server 2>/dev/null; chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
terminal new-session -d true 2>"$work/err" || { echo 'tmux finds no terminal'; exit 77; }
echo '{%- for m in messages %} {{ m.content }} . {% endfor %}' >"$work/template"

# chat COLUMNS LINES [OPTIONS...]: a chat in a new terminal. The settings of the terminal before and after it are in
# $work/before and $work/after. $wrap runs it.
wrap=
chat() {
    columns=$1 lines=$2
    shift 2
    rm -f "$work/before" "$work/after" "$work/pid" "$work/raw"
    cat >"$work/chat" <<END_CHAT
trap : INT # a signal of the terminal reaches this shell, too
stty -g >"$work/before"
sh -c 'echo \$\$ >"$work/pid"; exec "\$@"' sh env $wrap "$program" chat -m "$demo" --chat-template-file "$work/template" --temp 0 -n 6 $*
stty -g >"$work/after.new" && mv "$work/after.new" "$work/after"
read -r rest
END_CHAT
    anew
    terminal new-session -d -x "$columns" -y "$lines" "sh '$work/chat'"
    terminal pipe-pane -t 0 "cat >'$work/raw'"
    waits_for '^> *$'
}
screen() { terminal capture-pane -p -t 0 >"$work/out"; }
keys() { terminal send-keys -t 0 "$@"; }
types() { terminal send-keys -t 0 -l "$1"; }
pastes() { # like a terminal that marks what is pasted
    printf %b "$1" | terminal load-buffer -
    terminal paste-buffer -p -r -d -t 0
}
waits_for() {
    for _ in $(seq ${tries:-300}); do
        screen
        grep -q -e "$1" "$work/out" && return 0
        sleep 0.1
    done
    bad "'$1' does not appear"
    return 1
}
shows() { waits_for "$1" && good; }
# line TEXT [COLUMN]: the last line with text is this one, and the cursor is in this column.
line() {
    for _ in $(seq ${tries:-300}); do
        screen
        [ "$(grep . "$work/out" | tail -n 1)" = "$1" ] && [ "${2-}" = "${2+$(terminal display -p -t 0 '#{cursor_x}')}" ] &&
            { good; return; }
        sleep 0.1
    done
    bad "the last line is not '$1' with the cursor in ${2-any column}, but '$(grep . "$work/out" | tail -n 1)'," \
        "$(terminal display -p -t 0 '#{cursor_x}')"
}
ends() { # the chat is over, and the terminal is as it was
    for _ in $(seq ${tries:-300}); do
        [ -e "$work/after" ] && break
        sleep 0.1
    done
    that "the terminal's settings return after $1" cmp -s "$work/before" "$work/after"
}

# ---- editing
chat 40 20
types 'the red kettle' && keys C-a && types 'X' && line '> Xthe red kettle' 3
keys DC C-e BSpace && line '> Xhe red kettl' 15
keys M-b Left Left && types 'Y' && line '> Xhe reYd kettl' 9
keys C-k && line '> Xhe reY' 9
keys C-w C-y C-y && line '> Xhe reYreY' 12
keys Home C-f M-f C-u && line '>  reYreY' 2
keys C-c
types 'caf' && types "e$(printf '\314\201')" && types ' ole' && line "> cafe$(printf '\314\201') ole" 10
keys C-b C-b C-b C-b Left BSpace && line "> cae$(printf '\314\201') ole" 4
keys Delete && line '> ca ole' 4
keys C-a && types 'Q' && line '> Qca ole' 3
keys C-c
types 'abc' && keys Left C-d && line '> ab' 4 # the other sequences of the cursor keys
types "$(printf '\033OD')" && types 'X' && line '> aXb' 4
types "$(printf '\033OH')" && types 'Y' && line '> YaXb' 3
types "$(printf '\033OF\033OD\033OC')" && types 'Z' && line '> YaXbZ' 7
keys C-c
types '日本語日本語日本語日本語日本語日本語日本語' && line '本語' 4
keys Home && types 'y' && line '日本語' 3 # a wide character does not fit into the last column
keys Right Right BSpace && line '本語' 5
shows '^> y日語日本語日本語日本語日本語日本語日$'
keys C-c
types '0123456789012345678901234567890123456' && line '> 0123456789012345678901234567890123456' 39
types '7' && line '> 01234567890123456789012345678901234567' 0
types '8' && line '8' 1
keys Left Left && types 'z' && shows '^> 0123456789012345678901234567890123456z$'
line '78' 0

# ---- another size
terminal resize-window -t 0 -x 20 -y 20
shows '^> 012345678901234567$'
types 'k' && line 'k78' 1
terminal resize-window -t 0 -x 60 -y 20
shows '^> 0123456789012345678901234567890123456zk78$'
that 'the text is on the screen once' [ "$(grep -c zk78 "$work/out")" = 1 ]
keys C-c

# ---- commands
types '/st' && keys Tab && line '> /stats' 8
keys C-u && types '/' && keys Tab && shows '^/help  /stats  /policy'
types 'ex' && keys Tab && line '> /exit' 7
keys Enter && ends /exit
that 'the history is a file of the user alone' [ "$(stat -c %a "$XDG_STATE_HOME/kvcull/chat_history")" = 600 ]

# ---- several lines
saved() { that "$1" grep -aqF "$2" "$work/talk"; }
save() { # the conversation is in $work/talk
    rm -f "$work/talk"
    types "/save $work/talk" && keys Enter && shows 'saved to' && keys C-l
}
chat 60 20
types 'one \' && keys Enter && types 'two' && line '  two' 5
keys Up && types 'X' && keys Enter Enter && shows 'cut after' && save
saved 'a line that ends in a backslash goes on' 'oneX \ntwo"'
types '"""' && keys Enter && types 'three' && keys Enter && types 'four"""' && keys Enter && shows 'cut after' && save
saved 'a block of quotation marks' '"three\nfour"'
pastes 'five\r\nsix\n\nse\033ven\n' && line '  seven'
keys BSpace && types '8' && keys Enter && shows 'cut after' && save
saved 'what is pasted is one message, without control characters' '"five\nsix\n\nse'
pastes 'nine\rten' && keys M-Enter && types '11' && keys C-p && types '0' && line '  11' 5
keys Enter && shows 'cut after' && save
saved 'Alt-Enter begins a line' '"nine\nte0n\n11"'

# ---- history
keys Up Up && line '  11'
keys C-c && types 'draft' && keys Up && shows '^> /save' && keys Down && line '> draft' 7
keys C-u C-d && ends Ctrl-D
chat 60 20
keys Up Up && line '  11'
keys C-c C-d && ends Ctrl-D
echo 'not mine' >"$work/other"
cp "$work/other" "$work/kept"
chat 120 20 --history "$work/other"
shows "warning: --history $work/other: not a history"
types '/policy' && keys Enter && shows '^full$'
keys C-d && ends Ctrl-D
that 'another file stays as it is' cmp -s "$work/other" "$work/kept"
# Only the end of a long history is read. The messages that are kept replace the file, which only the user may read.
(umask 077 && awk 'BEGIN {
    print "# messages typed in kvcull chat"
    for (i = 1; i <= 2200; i++) printf "%d %8000s\n", i, "x"
}' | tr ' ' x >"$work/long")
sed -i '1s/.*/# messages typed in kvcull chat/; $s/.*/the last/' "$work/long"
chat 60 20 --history "$work/long"
keys Up && line '> the last' 10 && keys C-c C-d && ends Ctrl-D
that 'the newest messages stay' [ "$(wc -l <"$work/long") $(sed -n 2p "$work/long" | cut -c 1-5)" = '1001 1201x' ]
that 'for the user alone' [ "$(stat -c %a "$work/long")" = 600 ]
lines_before=$(wc -l <"$XDG_STATE_HOME/kvcull/chat_history")
chat 60 20 --history "''"
types '/policy' && keys Enter && shows '^full$' && keys C-d && ends Ctrl-D
that 'nothing is kept if the user wants that' [ "$(wc -l <"$XDG_STATE_HOME/kvcull/chat_history")" = "$lines_before" ]
wrap="XDG_STATE_HOME=$work/other/x"
chat 60 20
types '/policy' && keys Enter && shows '^full$' && keys Up && shows '^> /policy$' && keys C-c C-d && ends Ctrl-D
wrap=

# ---- during an answer
long="-n 1000000 --ignore-eos --backend ref"
during() { # what is typed appears at the next prompt, and only there
    types 'the red kettle' && keys Enter && waits_for '^> the red kettle$' && waits_for '^[a-z].* .* .*$'
    types "later $1" && types 'words'
    waits_for '^[a-z].* .* .*$'
    keys C-c
    shows "^> later ${2}words$"
    terminal capture-pane -p -S - -t 0 >"$work/out"
    that "what is typed is shown once ($wrap)" [ "$(grep -c later "$work/out")" = 1 ]
    that "the program goes on after Ctrl-C ($wrap)" [ ! -e "$work/after" ]
}
chat 60 24 $long
during "caf$(printf '\303\251')$(printf '\177')" caf
keys C-u && types 'the red' && keys Enter && waits_for '^> the red$'
types '/policy' && keys Enter C-c && shows '^> /policy$' && shows '^full$'
keys C-d && ends Ctrl-D
wrap=TERM=dumb
chat 60 24 $long
during "cafe$(printf '\177')" caf
keys C-c && waits_for '^> *$' && types 'the \' && keys Enter && types 'red' && keys Enter
types '/policy' && keys Enter C-c && shows '^> /policy$' && shows '^full$'
keys C-d && ends Ctrl-D
that 'TERM=dumb: no sequences' [ "$(grep -c "$(printf '\033')" "$work/raw")" = 0 ]
wrap=

# ---- Ctrl-C while the model reads a long message
chat 60 24 --backend ref --ctx 100000
pastes "$(seq 9000 | sed 's/.*/the old sailor/' | tr '\n' ' ')" && keys Enter
waits_for 'reading the prompt' && keys C-c && shows '^(stopped: the message is left out)$'
types 'the red kettle' && keys Enter && shows 'cut after' && save
that 'the message is left out' [ "$(grep -ac 'sailor the old' "$work/talk")" = 0 ]
keys C-d && ends Ctrl-D

# ---- ended by a signal; stopped and continued
chat 60 24
types 'half a message'
kill -TERM "$(cat "$work/pid")"
ends SIGTERM
anew
terminal new-session -d -x 60 -y 24 'PS1="% " bash --norc --noprofile'
waits_for '^% *$'
echo "exec '$program' chat -m '$demo' --chat-template-file '$work/template' -n 6" >"$work/talk"
types "sh $work/talk" && keys Enter && waits_for '^> *$'
types 'half a' && line '> half a' 8 && keys C-z && waits_for 'Stopped' && types 'stty -a | grep -o " echo icanon\| icanon\| echo " | wc -l' &&
    keys Enter && shows '^2$'
types 'fg' && keys Enter && line '> half a' 8
types ' message' && line '> half a message' 16
keys C-u && types '/exit' && keys Enter && waits_for '^% *$'

# ---- random keys
if command -v python3 >/dev/null; then
    if python3 "$source/tests/cli/random_keys.py" 1 20 "$program" chat -m "$demo" \
        --chat-template-file "$work/template" --temp 0 -n 3 --ctx 100000 >"$work/out" 2>&1; then
        good
    else
        bad 'random keys'
        tail -n 5 "$work/out"
    fi
else
    echo 'skipped: no python3: random keys'
fi
finish
