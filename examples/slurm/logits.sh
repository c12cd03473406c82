#!/bin/sh
#SBATCH --job-name=kvcull-logits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=00:30:00
#
# logits.sh - writes all logits of a text to a safetensors file, with the model divided between two nodes:
# sbatch examples/slurm/logits.sh MODEL TEXT OUT.safetensors
set -eu
model=${1:?give the model}
text=${2:?give the text}
out=${3:?give the file to write}
shift 3
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" logits -m "$model" -f "$text" --out "$out" \
    --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks tensor "$@"
