"""Opens the journal at the start and after a fault, and logs damage.

The daemon starts without a journal where none can be opened: placement needs none. See Recorder.
"""

from dataclasses import dataclass
from pathlib import Path

import structlog

from roost_engine.domain.errors import JournalError
from roost_engine.plugins.plugins import Knowledge
from roost_formats.journal.journal import Journal
from roost_formats.journal.pruning import JournalLimits

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedJournal:
    """The journal that a start finds.

    Attributes:
        journal: can be read; None where not even that is possible.
        fault: why the journal cannot be written; empty when it can.
    """

    journal: Journal | None
    fault: str = ""

    @property
    def last_at_s(self) -> float:
        """Engine time of the newest entry; 0 without one."""
        return 0.0 if self.journal is None else self.journal.last_at_s

    @property
    def epoch_of_zero_s(self) -> float | None:
        """The wall clock at engine time 0; None where it is unknown."""
        return None if self.journal is None else self.journal.epoch_of_zero_s


@dataclass(frozen=True, slots=True)
class JournalOpener:
    """Opens the journal of a folder.

    Attributes:
        folder: of the journal.
        limits: how much the journal keeps.
        version: of this daemon.
    """

    folder: Path
    limits: JournalLimits
    version: str

    def at_start(self) -> OpenedJournal:
        """Open the journal, for reading only where the disk is full; never raises JournalError."""
        journal: Journal | None = None
        try:
            journal = self.open()
            journal.check()
        except JournalError as error:
            _log.error(
                "journal_unusable",
                error=str(error),
                cure="free space or mend the disk; placement continues, nothing is recorded",
            )
            return OpenedJournal(journal or self._readable(), str(error))
        return OpenedJournal(journal)

    def open(self, known_damage: str = "") -> Journal:
        """Open the journal; a file that cannot be used is put aside, and that is logged.

        Args:
            known_damage: damage that was found while the file was in use; empty when none was.

        Raises:
            JournalError: there can be no journal at the moment.
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
