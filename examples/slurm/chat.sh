#!/bin/sh
# chat.sh - chats at a terminal, with the model divided among the nodes of an allocation:
# salloc --nodes=2 --ntasks-per-node=1 --cpus-per-task=8 examples/slurm/chat.sh MODEL
# Only the first process uses the terminal.
set -eu
model=${1:?give the model}
shift
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" --input=0 --unbuffered "${KVCULL:-kvcull}" chat -m "$model" \
    --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks tensor "$@"
