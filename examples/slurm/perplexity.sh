#!/bin/sh
#SBATCH --job-name=kvcull-perplexity
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=02:00:00
#
# perplexity.sh - divides the windows of a text among nodes, each with the whole model:
# sbatch examples/slurm/perplexity.sh MODEL TEXT
# If the model does not fit one node, add --ranks tensor after the text.
set -eu
model=${1:?give the model}
text=${2:?give the text}
shift 2
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" perplexity -m "$model" -f "$text" \
    --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks data --kv full --kv streaming:budget=1024 "$@"
