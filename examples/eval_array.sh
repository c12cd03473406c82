#!/bin/sh
#SBATCH --job-name=kvcull-eval
#SBATCH --array=1-8
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#
# eval_array.sh - runs `kvcull eval` as a Slurm job array: sbatch examples/eval_array.sh MODEL RESULTS [OPTIONS]
# An interrupted job resumes when it is submitted again. When all jobs have ended:
#   kvcull eval merge RESULTS/ruler-*.jsonl
set -eu
model=${1:?give the model}
results=${2:?give the folder of results}
shift 2
mkdir -p "$results"
exec "${KVCULL:-kvcull}" eval ruler -m "$model" --threads "${SLURM_CPUS_PER_TASK:-0}" \
    --kv full --kv snapkv:budget=10% --kv streaming:budget=10% --length 4096,8192 --samples 100 \
    --shard "${SLURM_ARRAY_TASK_ID:-1}/${SLURM_ARRAY_TASK_COUNT:-1}" \
    --out "$results/ruler-${SLURM_ARRAY_TASK_ID:-1}.jsonl" --resume "$@"
