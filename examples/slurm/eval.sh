#!/bin/sh
#SBATCH --job-name=kvcull-eval
#SBATCH --array=1-8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#
# eval.sh - divides the samples into shards, and each shard's model between two nodes:
# sbatch examples/slurm/eval.sh MODEL RESULTS
# For a model that fits one node, examples/eval_array.sh is faster. Afterwards: kvcull eval merge RESULTS/ruler-*.jsonl
set -eu
model=${1:?give the model}
results=${2:?give the folder of results}
shift 2
mkdir -p "$results"
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" eval ruler -m "$model" --threads "${SLURM_CPUS_PER_TASK:-0}" \
    --kv full --kv snapkv:budget=10% --length 4096,8192 --samples 100 \
    --shard "${SLURM_ARRAY_TASK_ID:-1}/${SLURM_ARRAY_TASK_COUNT:-1}" \
    --out "$results/ruler-${SLURM_ARRAY_TASK_ID:-1}.jsonl" --resume "$@"
