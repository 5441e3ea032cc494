"""What `roostctl audit --json` prints."""

from typing import TypedDict


class AuditDocument(TypedDict):
    """`roostctl audit show --json`."""

    schema: str
    changes: list[dict[str, object]]


class AuditBreakDocument(TypedDict):
    """A place at which the chain does not hold."""

    file: str
    line_number: int | None
    problem: str


class AuditCheckDocument(TypedDict):
    """`roostctl audit verify --json`."""

    schema: str
    is_whole: bool
    line_count: int
    unchained_count: int
    last_hash: str | None
    breaks: list[AuditBreakDocument]
    notes: list[str]
