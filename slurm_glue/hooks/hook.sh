#!/bin/sh
# Slurm drains a node whose Prolog or Epilog fails or hangs: this takes under 1 s and always
# exits 0, even where Python, the disk or the agent fails. Its file name says which hook it
# is: prolog.sh, epilog.sh, task-prolog.sh, prolog-slurmctld.sh, epilog-slurmctld.sh.
ROOST_SLURM=/usr/local/bin/roost-slurm
RUNTIME_FOLDER=/run/roost
OPTIONS=
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset PYTHONHOME PYTHONPATH LD_PRELOAD LD_LIBRARY_PATH  # a task prolog has its user's environment
name=${0##*/}
# Where there is nothing to do, Python is not started: jobs wait for it, and it takes longer than the rest.
folders=$OPTIONS
for folder in "$RUNTIME_FOLDER/job-map" "$RUNTIME_FOLDER-seats"; do
    if [ -e "$folder" ] || [ -h "$folder" ]; then folders=$folder; fi
done
[ "$name" = epilog.sh ] || [ ! -e /dev/roost ] || folders=/dev/roost # the devices of second seats
case $name in
prolog.sh) todo=${SLURM_JOB_GPUS:+$folders} ;; # without them roostd alone compares the allocation
epilog.sh) todo=$folders ;;
task-prolog.sh)
    requests=$SLURM_GPUS$SLURM_GPUS_PER_NODE$SLURM_GPUS_PER_TASK$SLURM_GPUS_PER_SOCKET
    todo=$SLURM_JOB_GPUS$SLURM_STEP_GPUS$CUDA_VISIBLE_DEVICES$requests
    # A task's only GPU has no order, and a job of one node needs no NICs.
    case $folders:${SLURM_JOB_NUM_NODES:-$SLURM_NNODES}:$requests:$CUDA_VISIBLE_DEVICES in
    :1:*[!0-9]*:* | :1:*:*,*) ;;
    :1:*) todo= ;;
    esac
    ;;
*) todo=all ;;
esac
[ -n "$todo" ] || exit 0
timeout -k 0.1 0.8 "$ROOST_SLURM" hook "${name%.sh}" --runtime-folder "$RUNTIME_FOLDER" ${OPTIONS:+"$OPTIONS"} </dev/null 2>/dev/null || true
exit 0
