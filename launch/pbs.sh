#!/bin/bash
# qsub -v PROGRAM=train.py launch/pbs.sh                (from the folder with .venv; change the numbers to your cluster)
#PBS -N distad
#PBS -l select=2:ncpus=8:mpiprocs=4:ompthreads=2
#PBS -l walltime=01:00:00
#PBS -j oe
set -eu
cd "$PBS_O_WORKDIR"
. .venv/bin/activate
export OPENBLAS_NUM_THREADS=${OMP_NUM_THREADS:-1}
export DISTAD_LOG_DIR=logs/$PBS_JOBID DISTAD_LOG=${DISTAD_LOG:-info}

# mpirun takes the nodes and the number of ranks from PBS.
mpirun python "$PROGRAM"
