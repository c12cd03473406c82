#!/bin/sh
#SBATCH --job-name=kvcull-serve
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
#
# serve.sh - runs the server on the first node, with its model divided among all: sbatch examples/slurm/serve.sh MODEL
# The server listens on that node's loopback address. ssh -L 8080:127.0.0.1:8080 NODE forwards it to your machine.
set -eu
model=${1:?give the model}
shift
exec srun --mpi="${SLURM_MPI_TYPE:-pmix}" "${KVCULL:-kvcull}" serve -m "$model" --threads "${SLURM_CPUS_PER_TASK:-0}" "$@"
