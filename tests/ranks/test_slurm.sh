#!/bin/sh
# The scripts for Slurm work, with mpirun instead of srun.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
scripts=$source/examples/slurm

# srun OPTIONS PROGRAM ARGUMENTS...: a job of two nodes with a task each.
mkdir "$work/bin"
cat >"$work/bin/srun" <<END
#!/bin/sh
while [ "\${1#--}" != "\$1" ]; do shift; done
exec $start -n 2 "\$@"
END
chmod +x "$work/bin/srun"
PATH=$work/bin:$PATH KVCULL=$program SLURM_CPUS_PER_TASK=1 SLURM_JOB_NUM_NODES=2 SLURM_NTASKS_PER_NODE=1
export KVCULL SLURM_CPUS_PER_TASK SLURM_JOB_NUM_NODES SLURM_NTASKS_PER_NODE

job() { # SCRIPT ARGUMENTS...
    script=$1
    shift
    timeout 300 sh "$scripts/$script.sh" "$@" >"$work/out" 2>"$work/err"
    status=$?
    that "$script: exit $status" [ $status = 0 ]
}
for i in 1 2 3 4; do echo 'the magic number for lantern 48 21 . then the old sailor found the red kettle .'; done >"$work/text"
job run "$demo" 'the magic number' -n 3
that 'run: ranks' grep -q '^ranks  *2 ' "$work/err"
job verify --kv full --kv cake:budget=66
that 'verify: three ways' [ "$(grep -c '^--ranks' "$work/out")" = 3 ]
that 'verify: equal each time' [ "$(grep -c '^Equal to' "$work/out")" = 3 ]
job bench "$demo" "$work/results" --prompt 64 --gen 4 --repeat 1 --batch 1
that 'bench: three files' [ "$(ls "$work/results" | wc -l)" = 3 ]
job perplexity "$demo" "$work/text" --ctx 24
that 'perplexity: a table' grep -q '^streaming' "$work/out"
job logits "$demo" "$work/text" "$work/logits.safetensors"
that 'logits: a file' [ -s "$work/logits.safetensors" ]
echo 'the magic number' >"$work/line"
job chat "$demo" --template vicuna -n 3 <"$work/line"
that 'chat: an answer' [ -s "$work/out" ]
ok mkmodel --shape thin -o "$work/thin.gguf" -q
job eval "$work/thin.gguf" "$work/results" --raw --length 2000 --samples 1 --question seen
that 'eval: a file' [ -s "$work/results/ruler-1.jsonl" ]
for script in run verify bench perplexity logits chat eval serve; do
    that "$script names its use" grep -q "slurm/$script.sh" "$scripts/$script.sh"
done
finish
