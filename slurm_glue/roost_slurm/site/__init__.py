"""The files that a site gives to Slurm, made from what probes report, and checks of the site's own.

gres.conf, lines for slurm.conf, job_submit.lua, certificates.
Not here: putting files in place.
"""
