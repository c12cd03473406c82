#!/bin/sh
# chat.sh - a conversation at a terminal, the model shared out to the nodes of an allocation:
# salloc --nodes=2 --ntasks-per-node=1 --cpus-per-task=8 examples/slurm/chat.sh MODEL
# The first process alone has the terminal.
set -eu
model=${1:?give the model}
shift
exec srun --mpi="${KVCULL_MPI:-pmix}" --input=0 --unbuffered "${KVCULL:-kvcull}" chat -m "$model" \
    --threads "${SLURM_CPUS_PER_TASK:-0}" --ranks tensor "$@"
