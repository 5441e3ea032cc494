"""Every error that Roost raises on purpose.

    RoostError
    ├── ConfigError        the configuration is wrong; carries every problem found
    ├── TopologyError      a text is no link matrix; carries source and line
    ├── PolicyError        a model or its answer is unusable
    │   ├── UnknownPolicy  a request names a policy that is not known
    │   └── PolicyRefused  a policy may not take over from another; says why
    ├── SlurmError         Slurm did not do what it was asked
    │   ├── SlurmTimeout   a command did not answer in time
    │   └── SlurmRefused   a command failed; carries argv, exit code and stderr
    ├── ProbeError         a probe sent an impossible value; names the quantity
    ├── JournalError       the journal cannot be read or written
    ├── UnknownNode        a request names a node that is not known
    ├── UnknownJob         a request names a job that is not known
    └── TimerError         a timer cannot be set to the requested value

`roostd.rpc.errors` maps these to gRPC codes, `roostctl.main` to exit codes.
"""

from collections.abc import Sequence

_LONGEST_PROBLEM = 1_000  # characters


class RoostError(Exception):
    """The root: catch this to catch everything that Roost raises on purpose."""


class ConfigError(RoostError):
    """The configuration is wrong. The error lists every problem, so that one run shows them all.

    A problem may quote a file: what cannot be printed is escaped, and a long one is cut.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(map(_on_one_line, problems))
        super().__init__("; ".join(self.problems))


def _on_one_line(text: str) -> str:
    if len(text) > _LONGEST_PROBLEM:
        text = f"{text[:_LONGEST_PROBLEM]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class TopologyError(RoostError):
    """A text that should be a link matrix is none."""

    def __init__(self, source: str, line: int, problem: str) -> None:
        super().__init__(f"{source}:{line}: {problem}")
        self.source, self.line, self.problem = source, line, problem


class PolicyError(RoostError):
    """A model or its answer cannot be used; the heuristic answers instead."""


class UnknownPolicy(PolicyError):
    """A request names a policy that is not known; the text says which there are."""


class PolicyRefused(PolicyError):
    """A policy may not take over from another one; the text has the figures."""


class SlurmError(RoostError):
    """Slurm did not do what it was asked."""


class SlurmTimeout(SlurmError):
    """A Slurm command did not answer in time."""

    def __init__(self, argv: Sequence[str], timeout_s: float) -> None:
        super().__init__(f"{argv[0]} gave no answer in {timeout_s:g} s: {' '.join(argv)}")
        self.argv, self.timeout_s = tuple(argv), timeout_s


class SlurmRefused(SlurmError):
    """A Slurm command ended with an exit code other than 0."""

    def __init__(self, argv: Sequence[str], exit_code: int, stderr: str) -> None:
        said = stderr.strip() or "no message"
        super().__init__(f"{argv[0]} exited with {exit_code}: {said}: {' '.join(argv)}")
        self.argv, self.exit_code, self.stderr = tuple(argv), exit_code, stderr


class ProbeError(RoostError):
    """A probe sent a value that cannot be true; nothing of that message is used."""

    def __init__(self, quantity: str, problem: str) -> None:
        super().__init__(f"{quantity}: {problem}")
        self.quantity, self.problem = quantity, problem


class JournalError(RoostError):
    """The journal cannot be read or written."""


class UnknownNode(RoostError):
    """A request names a node that neither Slurm nor a probe has named."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no node named {name[:64]!r}")
        self.name = name


class UnknownJob(RoostError):
    """A request names a job that Slurm has not named while this daemon ran.

    Attributes:
        job_id: that was asked for.
    """

    def __init__(self, job_id: str, hint: str = "") -> None:
        super().__init__(f"no job {job_id[:64]!r}" + (hint and f": {hint}"))
        self.job_id = job_id


class TimerError(RoostError):
    """A delay timer cannot be set to the value that an operator asked for."""
