"""`roostctl audit`: the changes that administrators made, and whether their record is whole."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import click
import grpc

from roost_formats.audit import chain
from roostctl.clients.calls import CallFailed
from roostctl.documents.audit import AuditBreakDocument, AuditCheckDocument, AuditDocument
from roostctl.options.common import json_option
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.quantities import ABSENT, safe_text

DEFAULT_FILE = Path("/var/lib/roost/audit.log")
_HEAD_NAME = "audit.head"
_BROKEN = 1
_HEADS = ("TIME", "UID", "USER", "BY", "ACTION", "WHAT")
# Shown in columns of their own, or of use to a check only.
_COMMON = frozenset({"at", "action", "by", "uid", "user", "pid", "after", "chain"})

_file_type = click.Path(dir_okay=False, path_type=Path)


@click.group(
    short_help="Show what administrators changed; check the record.",
    epilog="Example: roostctl audit verify",
)
def audit() -> None:
    """Show the changes that administrators made, and check that their record is whole.

    Reads the log of this machine, without asking roostd; root and roostd's user may.
    """


@audit.command(name="show", epilog="Example: roostctl audit show --last 20")
@click.option("--file", type=_file_type, default=DEFAULT_FILE, show_default=True, help="The log.")
@click.option(
    "--last", type=click.IntRange(min=1), help="Only so many, the newest ones.  [default: all]"
)
@json_option
def show_(file: Path, last: int | None, as_json: bool) -> None:
    """List the changes, oldest first."""
    lines = _read(file).decode("utf-8", "replace").splitlines()
    changes = [_change(line) for line in lines[-last if last else 0 :]]
    if as_json:
        document: AuditDocument = {"schema": "roost.audit/1", "changes": changes}
        print_document(document)
        return
    console = new_console()
    none = prose(f"{file} has no changes.", "dim")
    show(console, listing(console, _HEADS, [_row(one) for one in changes]) if changes else none)


@audit.command(epilog="Example: roostctl audit verify audit.log.1 audit.log")
@click.argument("files", nargs=-1, type=_file_type, metavar="[FILE]...")
@json_option
@click.pass_context
def verify(ctx: click.Context, files: tuple[Path, ...], as_json: bool) -> None:
    """Check the chain of hashes, and exit with 1 where it is broken.

    FILE is the log; of a rotated log name every part, the oldest first. A part that comes before
    them and is not named is not checked. audit.head beside the last file says whether lines are
    missing at its end.
    """
    found = _Check()
    for file in files or (DEFAULT_FILE,):
        found.add(file, _read(file))
    found.add_head((files or (DEFAULT_FILE,))[-1])
    if as_json:
        print_document(found.document())
    else:
        found.show()
    ctx.exit(_BROKEN if found.breaks else 0)


@dataclass
class _Check:
    """What the parts of a log have shown so far."""

    line_count: int = 0
    unchained_count: int = 0
    last_hash: str | None = None
    before_last_hash: str = ""
    breaks: list[AuditBreakDocument] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, file: Path, text: bytes) -> None:
        """Check one more part."""
        found = chain.check(text, self.last_hash or None)
        is_first = not self.line_count
        self.line_count += found.line_count
        self.unchained_count += found.unchained_count
        for one in found.breaks:
            self.breaks.append(
                {"file": str(file), "line_number": one.line_number, "problem": one.problem}
            )
        if found.unchained_count:
            self.notes.append(
                f"{file}: the first {found.unchained_count} lines are of an earlier version; "
                "the chain covers them from the next line on"
            )
        elif is_first and found.after not in ("", chain.START):
            self.notes.append(f"{file}: goes on from an earlier part, which was not named")
        lines = text.decode("utf-8", "replace").splitlines()
        before = (chain.hash_of(lines[-2]) if len(lines) > 1 else found.after) or ""
        self.before_last_hash = before if lines else self.before_last_hash
        self.last_hash = found.last_hash

    def add_head(self, file: Path) -> None:
        """Compare the end of the log with the hash that roostd keeps beside it."""
        try:
            head = file.with_name(_HEAD_NAME).read_text("ascii", "replace").strip()
        except OSError:
            self.notes.append("there is no audit.head: lines missing at the end are not noticed")
            return
        if head == self.last_hash:
            return
        if head == self.before_last_hash:
            # roostd writes the line first, and was killed before it wrote the head.
            self.notes.append("audit.head is one line behind, as after a crash")
            return
        problem = "the last line is not the one that audit.head names: lines are missing, or added"
        self.breaks.append({"file": str(file), "line_number": None, "problem": problem})

    def document(self) -> AuditCheckDocument:
        """Return what --json prints."""
        return {
            "schema": "roost.audit_check/1",
            "is_whole": not self.breaks,
            "line_count": self.line_count,
            "unchained_count": self.unchained_count,
            "last_hash": self.last_hash or None,
            "breaks": self.breaks,
            "notes": self.notes,
        }

    def show(self) -> None:
        """Print it for people."""
        lines = [prose(_break_text(one), "red") for one in self.breaks]
        lines += [prose(note, "dim") for note in self.notes]
        state = "is broken" if self.breaks else "is whole"
        lines.append(prose(f"The chain of {self.line_count} lines {state}."))
        show(new_console(), *lines)


def _break_text(one: AuditBreakDocument) -> str:
    number = "" if one["line_number"] is None else f":{one['line_number']}"
    return f"{safe_text(one['file'])}{number}: {one['problem']}"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except PermissionError as error:
        cure = "only root and roostd's user may read it; call roostctl with sudo"
        raise CallFailed(grpc.StatusCode.PERMISSION_DENIED, f"{file}: {cure}") from error
    except OSError as error:
        cure = "name the log of paths.state_dir; it is made at the first change"
        problem = f"{file}: {error.strerror}; {cure}"
        raise CallFailed(grpc.StatusCode.NOT_FOUND, problem) from error


def _change(line: str) -> dict[str, object]:
    try:
        change = json.loads(line)
    except (ValueError, RecursionError):  # the latter for 1,000 brackets
        return {"damaged": line}
    return change if isinstance(change, dict) else {"damaged": line}


def _row(change: dict[str, object]) -> tuple[Cell, ...]:
    what = ", ".join(
        f"{key}={value}"
        for key, value in change.items()
        if key not in _COMMON and value is not None
    )
    columns = (change.get(key) for key in ("at", "uid", "user", "by", "action"))
    return (*(ABSENT if one is None else safe_text(str(one)) for one in columns), safe_text(what))
