"""The admin comment that marks a job as managed by Roost: `roost:lease owner=1f begin=5 was=...`.

job_submit.lua writes it at submission; users can read but not change it. A pin adds the request
that it replaced, in the same call that replaces it, so that an operator can restore it by hand.
"""

import contextlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from roost_slurm.text.limits import LAST_EPOCH_S, whole_number

LEASE = "roost:lease"
ADVICE = "roost:advice"
ETA = "roost:eta"
GUARD = "roost:guard"  # not a lease: a job that keeps a seat taken, see seat_guards
RELEASED_STAMP = "roost:let-go"  # not a lease: released to Slurm for good
OTHERS = "roost:other"  # in place of LEASE in a lease of another roostd; never written to Slurm
_ETA = re.compile(rf"(?<!\S){ETA}\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What Roost's admin comment says of a job.

    Attributes:
        owner: whose heartbeat job_submit.lua had read, see heartbeat.Heartbeat; empty: not known.
        begin_epoch_s: the user's own --begin, LAST_EPOCH_S at most; None: the user gave none.
        was: the fields that a pin replaced, as (name, value): ("TresPerJob", "gres:gpu:2").
    """

    owner: str = ""
    begin_epoch_s: int | None = None
    was: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        words = [LEASE]
        if self.owner:
            words.append(f"owner={self.owner}")
        if self.begin_epoch_s is not None:
            words.append(f"begin={self.begin_epoch_s}")
        if self.was:
            words.append("was=" + ";".join(f"{name}:{value}" for name, value in self.was))
        return " ".join(words)

    def pinned_from(self, was: tuple[tuple[str, str], ...]) -> "Stamp":
        """Add the request that a pin replaces; an earlier entry stays: later pins replace pins."""
        return self if self.was else replace(self, was=was)


@lru_cache(maxsize=20_000)
def parse_stamp(admin_comment: str) -> Stamp | None:
    """Read an admin comment; None when it is not Roost's lease. Unknown words are ignored.

    Advice is ignored too: it is free text for people. The result is cached: each poll of the queue
    reads the same comments again.
    """
    first, *words = admin_comment.partition(f" {ADVICE} ")[0].split(" ")
    if first != LEASE:
        return None
    values = dict(word.partition("=")[::2] for word in words)
    was = values.get("was", "")
    return Stamp(
        owner=values.get("owner", ""),
        begin_epoch_s=_begin_epoch_s(values.get("begin", "")),
        was=tuple((name, value) for name, _, value in _pairs(was)),
    )


def seen_by(owner: str, admin_comment: str) -> str:
    """Return an admin comment as this roostd may read it: another one's lease is none.

    A lease without an owner counts as its own: an earlier job_submit.lua has written it.

    Args:
        owner: of this roostd; empty: every lease is its own.
        admin_comment: as Slurm has it.
    """
    stamp = parse_stamp(admin_comment) if owner else None
    if stamp is None or stamp.owner in ("", owner):
        return admin_comment
    return OTHERS + admin_comment.removeprefix(LEASE)


def advice(admin_comment: str, text: str) -> str:
    """Write advice into an admin comment, in place of older advice and after anything else."""
    before = admin_comment.partition(ADVICE)[0].rstrip()
    return f"{before} {ADVICE} {text}".strip()


def with_eta(admin_comment: str, text: str) -> str:
    """Write a forecast into an admin comment: `roost:eta[TEXT]`, in place of an older one.

    Everything else stays as it is. A new one stands before advice, which continues to the end.

    Args:
        admin_comment: any.
        text: without square brackets, and without `=`: that would look like a key of scontrol's.
    """
    part = f"{ETA}[{text}]"
    if _ETA.search(admin_comment):
        return _ETA.sub(lambda _: part, admin_comment, count=1)
    before, advice_word, after = admin_comment.partition(ADVICE)
    return f"{before.rstrip()} {part} {advice_word}{after}".strip()


def _begin_epoch_s(text: str) -> int | None:
    with contextlib.suppress(ValueError):
        return min(whole_number(text), LAST_EPOCH_S)
    return None


def _pairs(text: str) -> list[tuple[str, str, str]]:
    return [item.partition(":") for item in text.split(";") if ":" in item]
