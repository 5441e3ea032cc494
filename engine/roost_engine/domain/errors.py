"""Every error that Roost raises on purpose.

    RoostError
    ├── ConfigError        the configuration is wrong; carries every problem found
    ├── TopologyError      a link matrix is not one; carries source and line
    ├── PolicyError        a model or its answer is unusable
    ├── SlurmError         Slurm did not do what it was asked
    │   ├── SlurmTimeout   it did not answer in time
    │   └── SlurmRefused   it answered no; carries argv, exit code and stderr
    ├── ProbeError         a probe said something that cannot be; names the quantity
    ├── JournalError       the journal cannot be read or written
    ├── UnknownNode        asked about a node that nobody has seen
    ├── UnknownJob         asked about a job that nobody has seen
    └── TimerError         a timer cannot be set as asked; says what could

`roostd.rpc.errors` maps these to gRPC codes, `roostctl.main` to exit codes.
"""

from collections.abc import Sequence


class RoostError(Exception):
    """The root: catch this to catch everything that Roost raises on purpose."""


class ConfigError(RoostError):
    """The configuration is wrong. Every problem is in it, so that one run shows them all."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class TopologyError(RoostError):
    """A text that should be a link matrix is not one."""

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}")
        self.source, self.line, self.problem = source, line, problem


class PolicyError(RoostError):
    """A model, or what it answered, cannot be used; the heuristic takes over."""


class SlurmError(RoostError):
    """Slurm did not do what it was asked."""


class SlurmTimeout(SlurmError):
    """A Slurm command did not answer in time."""

    def __init__(self, argv: Sequence[str], timeout_s: float) -> None:
        super().__init__(f"{argv[0]} gave no answer in {timeout_s:g} s: {' '.join(argv)}")
        self.argv, self.timeout_s = tuple(argv), timeout_s


class SlurmRefused(SlurmError):
    """A Slurm command answered no."""

    def __init__(self, argv: Sequence[str], exit_code: int, stderr: str) -> None:
        said = stderr.strip() or "no message"
        super().__init__(f"{argv[0]} exited with {exit_code}: {said}: {' '.join(argv)}")
        self.argv, self.exit_code, self.stderr = tuple(argv), exit_code, stderr


class ProbeError(RoostError):
    """A probe said something that cannot be true; nothing of that message is used."""

    def __init__(self, quantity: str, problem: str) -> None:
        super().__init__(f"{quantity}: {problem}")
        self.quantity, self.problem = quantity, problem


class JournalError(RoostError):
    """The journal cannot be read or written."""


class UnknownNode(RoostError):
    """Asked about a node that neither Slurm nor a probe has named."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no node named {name!r}")
        self.name = name


class UnknownJob(RoostError):
    """Asked about a job that Slurm has not named while this daemon ran."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job {job_id!r}")
        self.job_id = job_id


class TimerError(RoostError):
    """A delay timer cannot be set as somebody asked."""
