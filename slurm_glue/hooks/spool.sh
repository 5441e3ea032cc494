#!/bin/sh
# PrologSlurmctld and EpilogSlurmctld: tells roostd that a job has started or ended. Plain sh,
# because it runs for every job on the controller, as SlurmUser, which often cannot reach root's
# Python.
ROOST_SLURM=/usr/local/bin/roost-slurm
RUNTIME_FOLDER=/run/roost
PATH=/usr/bin:/bin
spool=$RUNTIME_FOLDER/spool/events
case ${0##*/} in prolog*) word=start ;; *) word=end ;; esac
id=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}
case $id in '' | *[!0-9_]*) exit 0 ;; esac
# A pipe would block, a link lead elsewhere, and the file is not emptied while roostd is down.
if [ ! -e "$spool" ] && [ ! -h "$spool" ] ||
    { [ -f "$spool" ] && [ ! -h "$spool" ] && [ "$(wc -c <"$spool")" -lt 4194304 ]; }; then
    { echo "$word $id" >>"$spool"; } 2>/dev/null
fi
[ "$word" = end ] && [ -x "$ROOST_SLURM" ] || exit 0
# Without roostd, jobs that are pinned to busy GPUs would wait for just these. One run at a time
# gives them their own requests back. slurmctld does not wait for it, but kills what this script
# leaves in its own session. It sets no SLURM_CONF: where the commands do not find slurm.conf by
# themselves, export it here.
beat=0
{ [ -f "$RUNTIME_FOLDER/heartbeat" ] && read -r _ _ beat _ <"$RUNTIME_FOLDER/heartbeat"; } 2>/dev/null
case $beat in '' | *[!0-9]*) beat=0 ;; esac
[ "$beat" -lt "$(($(date +%s) - 15))" ] || exit 0
unset PYTHONHOME PYTHONPATH LD_PRELOAD LD_LIBRARY_PATH
setsid -w sh -c 'flock -n "$1" timeout -k 0.5 6 "$2" unpin --runtime-folder "$3" &' \
    sh "$0" "$ROOST_SLURM" "$RUNTIME_FOLDER" </dev/null >/dev/null 2>&1
exit 0
