#!/bin/bash
# Eight machines with eight GPUs each. Submit with: sbatch slurm.sh
# A job that is preempted or loses a machine is put back into the queue, and goes on from its last checkpoint.
#SBATCH --job-name=glassformer
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --requeue
#SBATCH --open-mode=append

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun torchrun \
    --nnodes="$SLURM_NNODES" --nproc-per-node=8 --max-restarts=3 \
    --rdzv-id="$SLURM_JOB_ID-$SLURM_RESTART_COUNT" --rdzv-backend=c10d --rdzv-endpoint="$first:29500" \
    -m glassformer train train.en train.de --valid valid.en valid.de -o runs/en-de \
    train.batch_tokens=25000 train.accumulate=64
