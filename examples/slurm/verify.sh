#!/bin/sh
#SBATCH --job-name=kvcull-verify
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=00:20:00
#
# verify.sh - checks that the results on these nodes are bit-identical to those of one process:
# sbatch examples/slurm/verify.sh
# If a bit differs, the exit status is 1 and the difference is printed. Further options are passed to verify
# (docs/how-to/testing.md).
set -eu
srun="srun --mpi=${SLURM_MPI_TYPE:-pmix}"
for how in tensor pipeline "tensor=${SLURM_NTASKS_PER_NODE:-2},pipeline=${SLURM_JOB_NUM_NODES:-2}"; do
    echo "--ranks $how"
    $srun "${KVCULL:-kvcull}" verify --only methods --against stored --threads "${SLURM_CPUS_PER_TASK:-0}" \
        --ranks "$how" "$@"
done
