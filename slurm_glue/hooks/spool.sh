#!/bin/sh
# PrologSlurmctld and EpilogSlurmctld: tells roostd that a job has started or ended. Plain sh,
# because it runs for every job on the controller, as SlurmUser, which often cannot reach root's
# Python.
RUNTIME_FOLDER=/run/roost
PATH=/usr/bin:/bin
spool=$RUNTIME_FOLDER/spool/events
case ${0##*/} in prolog*) word=start ;; *) word=end ;; esac
id=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}
case $id in '' | *[!0-9_]*) exit 0 ;; esac
# A pipe would block, a link lead elsewhere, and the file is not emptied while roostd is down.
if [ -e "$spool" ] || [ -h "$spool" ]; then
    [ -f "$spool" ] && [ ! -h "$spool" ] && [ "$(wc -c <"$spool")" -lt 4194304 ] || exit 0
fi
{ echo "$word $id" >>"$spool"; } 2>/dev/null
exit 0
