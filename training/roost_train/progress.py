"""A progress bar on standard error, for people only: silent where there is no terminal."""

from dataclasses import dataclass
from typing import TextIO

_WIDTH = 32
_DRAWS = 200  # a redraw a step would cost more than the step


@dataclass(slots=True)
class ProgressBar:
    """Draws itself over one line."""

    total: int
    stream: TextIO

    def __call__(self, done: int, loss: float | None = None) -> None:
        """Show that `done` steps are done."""
        if not self.stream.isatty():
            return
        if done % max(self.total // _DRAWS, 1) and done != self.total:
            return
        filled = _WIDTH * done // self.total
        bar = "#" * filled + "." * (_WIDTH - filled)
        end = "\n" if done == self.total else ""
        tail = "" if loss is None else f" loss {loss:.2e}"
        self.stream.write(f"\r[{bar}] {done}/{self.total}{tail}{end}")
        self.stream.flush()
