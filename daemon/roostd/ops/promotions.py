"""Keeps promotions across restarts: the policy, the evidence for it, the administrator.

They are one file in paths.state_dir, in the journal's codec with its checksum, written whole beside
the old one and renamed. A file that cannot be read is put aside: the configured policies decide.
Page: docs/policies.md.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from roost_engine.domain.errors import JournalError
from roost_engine.policies.canary import Slot
from roost_engine.prediction.evidence import Evidence
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.evaluation import Evaluation

FILE_NAME = "policies.state"
_LARGEST_BYTES = 1 << 20
_MOST_EVALUATIONS = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A policy in the place of the configured one, for a share of the users or for all.

    Attributes:
        slot, name, path: see policy_names.PolicyName.
        identity: of a model: "onnx:" and twelve digits of its sha256 when it was promoted.
        share_frac: of the users; 1: all.
        at_epoch_s: since when, seconds since 1970.
        by: the administrator.
        is_forced: whether it was promoted in spite of a refusal.
        evidence: what its jobs say against it.
    """

    slot: Slot
    name: str
    path: str = ""
    identity: str = ""
    share_frac: float = 1.0
    at_epoch_s: float = 0.0
    by: str = ""
    is_forced: bool = False
    evidence: Evidence = field(default_factory=Evidence)

    def __str__(self) -> str:
        """Write the policy as an operator does: order:las."""
        return f"{self.slot}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """A comparison of a policy with the one that decided then.

    Attributes:
        policy, identity: the candidate.
        against: the policy that it was compared with.
        refusal: why it must not be promoted by this; empty if it may.
    """

    slot: Slot
    policy: str
    against: str
    at_epoch_s: float
    found: Evaluation
    identity: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """A policy that was taken out of a slot."""

    slot: Slot
    policy: str
    at_epoch_s: float
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRequest:
    """The policy that decides in shadow."""

    slot: Slot
    name: str
    path: str = ""
    since_epoch_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotions:
    """Everything that is kept.

    Attributes:
        promoted: by slot, for all users.
        canary: for a share of the users; one at a time.
        shadow: decides beside the active policy, and nothing follows from it.
        evaluations: the newest last.
        rollbacks: the last one of each slot.
    """

    promoted: Mapping[Slot, Promotion] = field(default_factory=dict)
    canary: Promotion | None = None
    shadow: ShadowRequest | None = None
    evaluations: tuple[StoredEvaluation, ...] = ()
    rollbacks: Mapping[Slot, Rollback] = field(default_factory=dict)

    def all(self) -> tuple[Promotion, ...]:
        """Return every promotion, the canary last."""
        return (*self.promoted.values(), *((self.canary,) if self.canary else ()))

    def with_promotion(self, promotion: Promotion) -> "Promotions":
        """Return the same with a promotion; one for all users ends its slot's canary."""
        if promotion.share_frac < 1.0:
            return replace(self, canary=promotion)
        canary = self.canary
        if canary is not None and canary.slot is promotion.slot:
            canary = None
        return replace(self, promoted={**self.promoted, promotion.slot: promotion}, canary=canary)

    def without(self, promotion: Promotion, rollback: Rollback) -> "Promotions":
        """Return the same after one of its promotions was rolled back.

        Args:
            promotion: one of `all`; a canary and the policy for all other users may share a slot.
            rollback: how that came.
        """
        rollbacks = {**self.rollbacks, rollback.slot: rollback}
        if promotion.share_frac < 1.0:
            return replace(self, canary=None, rollbacks=rollbacks)
        left = {slot: one for slot, one in self.promoted.items() if slot is not rollback.slot}
        return replace(self, promoted=left, rollbacks=rollbacks)

    def with_evaluation(self, found: StoredEvaluation) -> "Promotions":
        """Return the same with one more evaluation; the oldest ones go."""
        return replace(self, evaluations=(*self.evaluations, found)[-_MOST_EVALUATIONS:])


def read_promotions(folder: Path) -> tuple[Promotions, str]:
    """Return what was kept, and why nothing could be read: "" where that is no fault.

    A file that cannot be read is put aside under another name.
    """
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise JournalError("larger than 1 MiB")
        return decode(data, Promotions), ""
    except FileNotFoundError:
        return Promotions(), ""
    except (OSError, JournalError) as error:
        aside = path.with_name(f"{FILE_NAME}.damaged")
        with contextlib.suppress(OSError):
            path.replace(aside)
        fault = f"{path}: {error}; put aside as {aside.name}, the configured policies decide"
        _log.error("promotions_lost", error=fault, cure="promote again what was promoted")
        return Promotions(), fault


def write_promotions(folder: Path, promotions: Promotions) -> None:
    """Write the file whole, or leave the old one.

    Raises:
        JournalError: the disk does not take it.
    """
    path = folder / FILE_NAME
    new = path.with_name(f"{FILE_NAME}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(new, flags, 0o600), "wb") as file:
            file.write(encode(promotions))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder_file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder_file)
        finally:
            os.close(folder_file)
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}; nothing was changed") from error
