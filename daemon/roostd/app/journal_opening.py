"""Opens the journal at the start and after a fault, and says what became of it.

The daemon starts without a journal if it must: placement needs none. See Recorder.
"""

from dataclasses import dataclass
from pathlib import Path

import structlog

from roost_engine.domain.errors import JournalError
from roost_engine.plugins import Knowledge
from roost_formats.journal.journal import Journal, Limits

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedJournal:
    """What there is of a journal.

    Attributes:
        journal: to be read; None where not even that is possible.
        fault: why it cannot be written; empty when it can.
    """

    journal: Journal | None
    fault: str = ""

    @property
    def last_at_s(self) -> float:
        """Engine time of the newest entry; 0 without one."""
        return 0.0 if self.journal is None else self.journal.last_at_s

    @property
    def epoch_of_zero_s(self) -> float | None:
        """The wall clock at engine time 0; None where that is not known."""
        return None if self.journal is None else self.journal.epoch_of_zero_s


@dataclass(frozen=True, slots=True)
class JournalOpener:
    """Opens the journal of a folder.

    Attributes:
        folder: where it is.
        limits: how much is kept.
        version: of this daemon.
    """

    folder: Path
    limits: Limits
    version: str

    def at_start(self) -> OpenedJournal:
        """Open the journal, for reading alone where the disk is full; never raises for its sake."""
        journal: Journal | None = None
        try:
            journal = self.anew()
            journal.check()
        except JournalError as error:
            _log.error(
                "journal_unusable",
                error=str(error),
                cure="free space or mend the disk; placement goes on, nothing is recorded",
            )
            return OpenedJournal(journal or self._readable(), str(error))
        return OpenedJournal(journal)

    def anew(self, known_damage: str = "") -> Journal:
        """Open the journal, put aside what cannot be used, and say so.

        Args:
            known_damage: what was found in the file by its use; empty when nothing was.

        Raises:
            JournalError: there can be none at the moment.
        """
        journal = Journal.open(
            self.folder, self.limits, self.version, Knowledge, known_damage=known_damage
        )
        if journal.quarantined is not None:
            is_newer = ".newer-" in journal.quarantined.name
            _log.error(
                "journal_newer" if is_newer else "journal_damaged",
                put_aside=str(journal.quarantined),
                error=journal.quarantine_reason,
            )
        return journal

    def _readable(self) -> Journal | None:
        try:
            return Journal.open(self.folder, self.limits, self.version, Knowledge, is_alone=True)
        except JournalError:
            return None
