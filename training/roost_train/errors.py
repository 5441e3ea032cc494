"""Errors that end roost-train."""

from pathlib import Path


class TrainError(Exception):
    """The root: the command prints it as one line and exits with 2."""


class MissingLibrary(TrainError):
    """torch or onnx is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not installed; run: pip install 'roost[train]'")
        self.name = name


class ModelError(TrainError):
    """A model file cannot be verified."""


class TooFewJobs(TrainError):
    """A file has too few jobs to learn from and to judge by."""

    def __init__(self, source: str, count: int, wanted: int, which: str = "with GPUs") -> None:
        super().__init__(
            f"{source}: {count} jobs {which}; want {wanted} or more: take a longer time"
        )
        self.source, self.count, self.wanted = source, count, wanted


class TooFewChoices(TrainError):
    """Jobs show too few choices between two waiting jobs to learn an order from."""

    def __init__(self, source: str, count: int, wanted: int) -> None:
        super().__init__(
            f"{source}: {count} choices between two waiting jobs; want {wanted} or more: take more"
            " jobs, or a time in which more of them wait"
        )
        self.source, self.count, self.wanted = source, count, wanted


class BadTable(TrainError):
    """A table of measurements cannot be read."""

    def __init__(self, path: Path, line: int, why: str) -> None:
        where = f"{path}:{line}" if line else str(path)
        super().__init__(f"{where}: {why}; which tables are read: docs/interference.md#tables")
        self.path, self.line = path, line
