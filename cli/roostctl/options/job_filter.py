"""Which jobs a list shows: by user, account, partition, state and name."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.values import job_state_word
from roostctl.output.logins import login

_Command = TypeVar("_Command", bound=Callable[..., Any])

STATES = tuple(
    word for value in pb.JobState.values() if value and (word := job_state_word(value)) is not None
)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a job must be to be shown; an empty field takes every job.

    Attributes:
        users: login names or numbers.
        names: patterns as in a shell: "train-*".
    """

    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    def takes(self, job: pb.Job) -> bool:
        """Return whether a job is shown."""
        if self.users and self.users.isdisjoint((login(job), str(job.user_id))):
            return False
        if self.accounts and job.account not in self.accounts:
            return False
        if self.partitions and self.partitions.isdisjoint(job.partition.split(",")):
            return False
        if self.states and job_state_word(job.state) not in self.states:
            return False
        return not self.names or any(fnmatch.fnmatchcase(job.name, one) for one in self.names)

    def of(self, jobs: Iterable[pb.Job]) -> list[pb.Job]:
        """Return the jobs that are shown, in their order."""
        return [job for job in jobs if self.takes(job)]


def _split(values: Sequence[str]) -> tuple[str, ...]:
    """Return the words of options that may be repeated and may have commas."""
    return tuple(word for value in values for word in value.split(",") if word)


def _states(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    words = tuple(word.lower().replace("-", "_").replace(" ", "_") for word in _split(values))
    for word in words:
        if word not in STATES:
            raise click.BadParameter(f"no state {word!r}; want one of {', '.join(STATES)}")
    return words


def filter_options(command: _Command) -> Callable[..., Any]:
    """Add `--user`, `--account`, `--partition`, `--state` and `--name`, as one `job_filter`."""
    wrapped = _with_filter(command)
    several: dict[str, Any] = {"multiple": True, "callback": lambda ctx, param, v: _split(v)}
    for option in (
        click.option(
            "--name",
            "names",
            metavar="PATTERN",
            help="Job name; * and ? stand for any letters, as in train-*.",
            **several,
        ),
        click.option(
            "--state",
            "states",
            metavar="STATE",
            multiple=True,
            callback=_states,
            help=f"{', '.join(STATES)}.  [default: all but ended]",
        ),
        click.option(
            "--partition",
            "-p",
            "partitions",
            metavar="PARTITION",
            help="Name of a partition that the job may run in.",
            **several,
        ),
        click.option(
            "--account", "-A", "accounts", metavar="ACCOUNT", help="Slurm account.", **several
        ),
        click.option(
            "--user", "-u", "users", metavar="USER", help="Login name or number.", **several
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def _with_filter(command: _Command) -> Callable[..., Any]:
    """Return a command that is called with one filter in place of its five options."""

    @wraps(command)
    def call(*args: Any, **given: Any) -> Any:
        options = {name: given.pop(name) for name in ("users", "accounts", "partitions")}
        states, names = given.pop("states"), given.pop("names")
        return command(*args, job_filter=filter_of(**options, states=states, names=names), **given)

    return call


def filter_of(**given: Sequence[str]) -> JobFilter:
    """Return the filter of the options that `filter_options` added."""
    return JobFilter(
        users=frozenset(given["users"]),
        accounts=frozenset(given["accounts"]),
        partitions=frozenset(given["partitions"]),
        states=frozenset(given["states"]),
        names=tuple(given["names"]),
    )
