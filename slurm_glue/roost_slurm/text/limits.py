"""Limits on what Slurm's texts may make Roost build: many of their numbers are any user's choice.

Each limit is far above what a cluster has. It is checked before anything is built, so that an
absurd number costs as little as a small one.
"""

import re

# uint64, Slurm's widest number, has 20 digits. int() refuses more than 4,300 with a ValueError of
# its own, and a float holds no more than 308.
MOST_DIGITS = 20

# The largest clusters of the TOP500 list have about 10,000 nodes. `n[1-99999999]` would take 6 GB.
MOST_HOSTS = 100_000

# The longest request that a node of 128 typed GPUs needs, `gres/gpu:g127:1` each, has 2,000
# characters; an argument of sbatch may have 131,072.
LONGEST_REQUEST = 4_096

# Of a job's comment, which roostd keeps for every job; an argument of sbatch may have 131,072. A
# word for Roost is read when it stands before this place.
LONGEST_COMMENT = 4_096

# A node's CPUs, a node's GPUs or an array's tasks; Slurm itself ends arrays at 4,000,001 tasks.
MOST_INDICES = 1 << 20

# squeue prints a line for each task of an array, and roostd reads every line at each poll: 20,000
# take half a second. Slurm's default is 1,001 tasks (MaxArraySize).
MOST_TASKS = 20_000

# 2 ** 60 bytes: far above any node's memory, and far below where int64 and float64 lose bytes.
MOST_MEMORY_BYTES = 1 << 60

# 9999-12-31T23:59:59: the last time that datetime, and thus `StartTime=`, can write.
LAST_EPOCH_S = 253_402_300_799

# Slurm keeps the numbers of jobs and users, priorities and counts of nodes, tasks and CPUs in 32
# bits. scontrol refuses a longer job number, and so do Roost's commands.
MOST_UINT32 = (1 << 32) - 1

_NUMBER = re.compile(rf"\d{{1,{MOST_DIGITS}}}", re.ASCII)


def whole_number(text: str) -> int:
    """Return a number of decimal digits.

    Raises:
        ValueError: it is none, or has more than MOST_DIGITS digits.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no number of 1 to {MOST_DIGITS} digits")
    return int(text)


def uint32(text: str) -> int:
    """Return a number that Slurm keeps in 32 bits.

    Raises:
        ValueError: it is none, or larger.
    """
    number = whole_number(text)
    if number > MOST_UINT32:
        raise ValueError(f"{text!r} is above {MOST_UINT32}")
    return number
