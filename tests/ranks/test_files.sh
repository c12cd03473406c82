#!/bin/sh
# Files that differ between ranks in one bit give status 4 and a line with the rank, the tensor, key or file, and its
# path, if any rank reads that bit; otherwise results are bit-identical to one process. Equal files at different paths
# are accepted.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
cat >"$work/each" <<'END'
#!/bin/sh
cd "$RANKS_WORK/at.${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}" || exit 99
[ ! -f with ] || set -- "$@" $(cat with)
exec "$RANKS_PROGRAM" "$@"
END
chmod +x "$work/each"
RANKS_WORK=$work RANKS_PROGRAM=$program each=$work/each
export RANKS_WORK RANKS_PROGRAM
mkdir "$work/at.0" "$work/at.1"
for r in 0 1; do
    cp -r "$demo" "$work/at.$r/demo" && chmod -R u+w "$work/at.$r"
    (cd "$work/at.$r" && "$program" convert demo -o demo.gguf --type q8_0 -q) || bad 'convert'
    echo 'the magic number for lantern 48 21 . then the old sailor found the red kettle .' >"$work/at.$r/text"
done
other=$work/at.1

# flip FILE OFFSET: inverts one bit; repeating it restores the file.
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
answer="-p the -n 4 --temp 0 --ignore-eos -q --threads 1"
# shellcheck disable=SC2086
ok run -m "$demo" $answer
cp "$work/out" "$work/one"
# refused RANKS PATTERN ARGUMENTS...
refused() {
    pattern=$2 ranks=$1
    shift 2
    on "$ranks" "$@"
    status=$?
    that "exit $status of $*" [ $status = 4 ]
    that "one line of $*" [ "$(grep -c '^kvcull: rank' "$work/err")" = 1 ]
    has "rank 0: $pattern .*is not the same on rank 1" "$work/err"
}

# ---- the same file in two places, and one file shared by two machines
for how in tensor pipeline; do
    # shellcheck disable=SC2086
    same "two files, $how" 2 run -m demo $answer --ranks $how
    that "two files, $how: the answer" cmp -s "$work/one" "$work/out"
done
KVCULL_RANKS=machines
export KVCULL_RANKS
# shellcheck disable=SC2086
same 'one file, two machines' 2 run -m "$demo" $answer
that 'one file, two machines: the answer' cmp -s "$work/one" "$work/out"
unset KVCULL_RANKS

# ---- one bit of a tensor. Rank 1 reads some of it with tensor, and all of it with pipeline for upper layers.
weights=$other/demo/model.safetensors
size=$(wc -c <"$weights")
told=0
for tenth in 1 2 3 4 5 6 7 8 9 10; do
    [ $((tenth % 2)) = 0 ] && how=tensor || how=pipeline
    at=$((size * tenth / 10 - 1000))
    flip "$weights" $at
    # shellcheck disable=SC2086
    on 2 run -m demo $answer --ranks $how
    status=$?
    if [ $status = 0 ]; then
        that "bit at $at, $how: the answer" cmp -s "$work/one" "$work/out"
    else
        that "bit at $at, $how: exit $status" [ $status = 4 ]
        has 'rank 0: .*demo/model.safetensors: tensor [a-z0-9_.]* is not the same on rank 1' "$work/err"
        told=$((told + 1))
    fi
    flip "$weights" $at
done
that "told of $told bits" [ $told -ge 4 ]
# the same bit with the ranks exchanged: rank 0's own part is checked, too
flip "$work/at.0/demo/model.safetensors" $((size - 1000))
# shellcheck disable=SC2086
on 2 run -m demo $answer --ranks pipeline
that 'rank 0 has the other file' [ $? = 4 ]
flip "$work/at.0/demo/model.safetensors" $((size - 1000))

# ---- metadata, small files, norms
at=$(grep -abo sailor "$other/demo.gguf" | head -n 1 | cut -d : -f 1)
flip "$other/demo.gguf" "$at"
refused 2 'demo.gguf: metadata tokenizer[a-z.]*' run -m demo.gguf -p the -n 2
flip "$other/demo.gguf" "$at"
flip "$other/demo.gguf" $(($(wc -c <"$other/demo.gguf") - 100))
refused 2 'demo.gguf: tensor' run -m demo.gguf -p the -n 2
flip "$other/demo.gguf" $(($(wc -c <"$other/demo.gguf") - 100))
for file in tokenizer.json tokenizer_config.json config.json; do
    cp "$other/demo/$file" "$work/kept"
    echo ' ' >>"$other/demo/$file"
    refused 2 "demo: $file" run -m demo -p the -n 2
    mv "$work/kept" "$other/demo/$file"
done

# ---- a file that a policy reads
printf '1 0\n0 1\n1 1\n0 1\n' >"$work/at.0/heads"
printf '1 0\n0 1\n1 1\n0 0.9\n' >"$other/heads"
refused 2 'heads: the file of policy duo' run -m demo -p the -n 2 --kv duo:file=heads,sinks=4,recent=40
cp "$work/at.0/heads" "$other/heads"
same 'the same heads' 2 run -m demo -p the -n 2 --kv duo:file=heads,sinks=4,recent=40 -q

# ---- ranks that each have the whole model
perplexity='perplexity -m demo -f text --ctx 12 --kv full --threads 1 --ranks data'
# shellcheck disable=SC2086
same perplexity 2 $perplexity
flip "$weights" $((size / 2))
# shellcheck disable=SC2086
refused 2 '.*demo/model.safetensors: tensor' $perplexity
flip "$weights" $((size / 2))
refused_quietly() { # STATUS PATTERN ARGUMENTS...
    want=$1 pattern=$2
    shift 2
    on 2 "$@"
    status=$?
    that "exit $status of $*" [ $status = "$want" ]
    one_line "$pattern" "$*"
}
echo 'another line' >>"$other/text"
# shellcheck disable=SC2086
refused_quietly 3 'text: is not the same on rank 1' $perplexity
cp "$work/at.0/text" "$other/text"
echo '--prompt 4' >"$other/with"
# shellcheck disable=SC2086
refused_quietly 2 'rank 1 was started with other arguments' $perplexity
echo '--threads 2' >"$other/with"
# shellcheck disable=SC2086
same 'threads may differ' 2 $perplexity
finish
