"""Logs: one line for each event on stderr, safe in a terminal and easy to filter by systemd."""

import sys
from collections.abc import Callable, MutableMapping
from typing import Protocol, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from roostd.config.values import LogFormat, LogLevel

# syslog(3) priorities; systemd reads them as "<N>" at the start of a line, sd-daemon(3).
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_LEVEL_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

# C0, DEL and C1, and the two line separators of Unicode: a job name must not forge log lines or
# move the cursor of a reader's terminal.
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09,)
} | {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class LogStream(Protocol):
    """Where lines go: the part of a text stream that a logger uses."""

    def write(self, text: str, /) -> int:
        """Take a line, with its end. Returns its length."""

    def flush(self) -> None:
        """Pass on what was taken."""


def configure_logs(
    level: LogLevel = "info",
    line_format: LogFormat = "logfmt",
    *,
    under_systemd: bool = False,
    stream: LogStream | None = None,
) -> None:
    """Send every structlog event to a stream.

    Args:
        level: the lowest level that is written.
        line_format: "logfmt" for people, "json" for programs.
        under_systemd: whether lines begin with the priority and leave the time to systemd.
        stream: standard error when None.
    """
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    if not under_systemd:
        processors.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
    processors.append(_render(line_format, with_priority=under_systemd))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVEL_NUMBERS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stream or sys.stderr)),
        cache_logger_on_first_use=False,
    )


def _render(line_format: LogFormat, *, with_priority: bool) -> Callable[..., str]:
    if line_format == "json":
        renderer: Processor = structlog.processors.JSONRenderer(sort_keys=False, default=str)
    else:
        renderer = structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
        )

    def render(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = _PRIORITIES[str(event["level"])]
        if with_priority:
            del event["level"]
        line = str(renderer(logger, method, _escaped(event)))
        return f"<{priority}>{line}" if with_priority else line

    return render


def _escaped(event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    return {
        key: value if isinstance(value, bool | int | float) else escape(str(value))
        for key, value in event.items()
        if value is not None
    }


def escape(text: str) -> str:
    """Return a text with its control characters as visible escapes."""
    return text.translate(_ESCAPES)
