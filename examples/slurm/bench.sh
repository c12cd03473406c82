#!/bin/sh
#SBATCH --job-name=kvcull-bench
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#
# bench.sh - measures each way of dividing a model among these nodes: sbatch examples/slurm/bench.sh MODEL RESULTS
# Writes a JSON file to RESULTS for each way. tools/ranks_plan.py predicts the results without nodes.
set -eu
model=${1:?give the model}
results=${2:?give the folder of results}
shift 2
mkdir -p "$results"
for how in tensor pipeline "tensor=${SLURM_NTASKS_PER_NODE:-2},pipeline=${SLURM_JOB_NUM_NODES:-2}"; do
    srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" bench -m "$model" --prompt 4096 --gen 64 --batch 1,16 \
        --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks "$how" --json -q "$@" >"$results/bench-$how.json"
done
