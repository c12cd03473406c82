#!/bin/sh
#SBATCH --job-name=kvcull-run
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#
# run.sh - divides one model among processes, one on each node (docs/how-to/several-machines.md):
# sbatch examples/slurm/run.sh MODEL PROMPT
# Every node must see the model at the same path. srun replaces mpirun; srun --mpi=list prints the MPI types available.
set -eu
model=${1:?give the model}
prompt=${2:?give the prompt}
shift 2
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" run -m "$model" -p "$prompt" \
    --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks tensor "$@"
