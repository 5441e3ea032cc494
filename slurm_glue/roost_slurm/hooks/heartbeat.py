"""The file by which roostd tells job_submit.lua that it is alive, and what to hold.

    roost 1 <unix epoch seconds> <lease seconds>
    enforce main,debug
    except slow
    models a100,h100
    accounts vision
    qos
    share_qos together
    owner 1f2e3d4c
    registered <unix epoch seconds>

`enforce` names partitions, or "*" for all but those of `except`. `models` are GPU models that
users may write as a type (`gpu:a100:2`). Only jobs of these `accounts` and `qos` get a lease; an
empty list means all. Jobs of the QoS in `share_qos` opt in to share their GPUs, unless their
comments say otherwise; the line is missing where there are none. `owner` tells the machine and the
folder of this file: job_submit.lua reads one file, and writes its owner into each lease.
`registered` is when roostd has last asked Slurm for the nodes and found them registered with
slurmctld; 0: they are about to register. The file is replaced as a whole: a reader never gets half
of it.
"""

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

FRESH_S = 15  # as in job_submit.lua and spool.sh
MAX_BYTES = 4096  # what job_submit.lua reads
LONGEST_LEASE_S = 86_400  # as in job_submit.lua
EVERY_PARTITION = "*"

_FIRST_LINE = re.compile(r"roost 1 (\d{1,15}) (\d{1,5})")
_OWNER = re.compile(r"[0-9a-f]{1,16}")
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")


class HeartbeatError(ValueError):
    """A heartbeat has a value that cannot be written, or a text is no heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One beat."""

    at_epoch_s: int
    lease_s: int
    enforce: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    share_qos: tuple[str, ...] = ()
    owner: str = ""
    registered_epoch_s: int | None = None  # None: an earlier roostd, which does not say

    def __post_init__(self) -> None:
        if not 1 <= self.lease_s <= LONGEST_LEASE_S:
            raise HeartbeatError(f"lease of {self.lease_s} s; want 1 to {LONGEST_LEASE_S}")
        if self.at_epoch_s < 0:
            raise HeartbeatError(f"time {self.at_epoch_s} lies before the epoch")
        if self.owner and not _OWNER.fullmatch(self.owner):
            raise HeartbeatError(f"{self.owner!r} is no owner")
        steered = (*self.enforce, *self.excepted, *self.models, *self.accounts, *self.qos)
        for name in (*steered, *self.share_qos):
            if name != EVERY_PARTITION and not is_name(name):
                raise HeartbeatError(f"{name!r} cannot stand in a heartbeat")

    def is_fresh(self, now_epoch_s: float) -> bool:
        """Return whether the beat is recent; one from the future is not: the clock was set back."""
        return abs(now_epoch_s - self.at_epoch_s) <= FRESH_S


def is_name(text: str) -> bool:
    """Return whether a heartbeat can have a partition, model, account or QoS of that name."""
    return _NAME.fullmatch(text) is not None


def render(beat: Heartbeat) -> str:
    """Write a beat as text.

    Raises:
        HeartbeatError: too many names to fit in 4 KiB.
    """
    lines = [f"roost 1 {beat.at_epoch_s} {beat.lease_s}"]
    lines += [
        f"{key} {','.join(names)}"
        for key, names in (
            ("enforce", beat.enforce),
            ("except", beat.excepted),
            ("models", beat.models),
            ("accounts", beat.accounts),
            ("qos", beat.qos),
        )
    ]
    if beat.share_qos:
        lines.append(f"share_qos {','.join(beat.share_qos)}")
    if beat.owner:
        lines.append(f"owner {beat.owner}")
    if beat.registered_epoch_s is not None:
        lines.append(f"registered {beat.registered_epoch_s}")
    text = "\n".join(lines) + "\n"
    if len(text) > MAX_BYTES:
        raise HeartbeatError(f"{len(text)} bytes of names; want at most {MAX_BYTES}")
    return text


def parse(text: str) -> Heartbeat:
    """Read a beat; unknown lines are ignored, because a newer roostd may write more.

    Raises:
        HeartbeatError: the first line or a name is wrong.
    """
    first, *rest = text.splitlines() or [""]
    match = _FIRST_LINE.fullmatch(first)
    if match is None:
        raise HeartbeatError(f"first line {first[:80]!r}; want `roost 1 EPOCH LEASE`")
    values = {key: value for key, _, value in (line.partition(" ") for line in rest)}
    lists = {key: _names(value) for key, value in values.items()}
    return Heartbeat(
        at_epoch_s=int(match[1]),
        lease_s=int(match[2]),
        enforce=lists.get("enforce", ()),
        excepted=lists.get("except", ()),
        models=lists.get("models", ()),
        accounts=lists.get("accounts", ()),
        qos=lists.get("qos", ()),
        share_qos=lists.get("share_qos", ()),
        owner=values.get("owner", ""),
        registered_epoch_s=_epoch_s(values.get("registered", "")),
    )


def owner_of(folder: Path, host: str) -> str:
    """Return the owner of the heartbeat in a folder of a host."""
    return hashlib.sha256(f"{host}:{os.path.realpath(folder)}".encode()).hexdigest()[:8]


def write(path: Path, beat: Heartbeat) -> None:
    """Replace the file at `path`; slurmctld, another user, may read it."""
    text = render(beat)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _epoch_s(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
