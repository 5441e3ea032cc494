"""Kinds of jobs: what is learned of one job is expected of the next of its kind."""

from roost_engine.domain.model import JobSpec


def kind_of(job: JobSpec) -> str:
    """Return the kind of a job: its user and name. No kind is shared by two users."""
    return f"{job.user_id} {job.name}"


def user_and_name(kind: str) -> tuple[int, str]:
    """Return what `kind_of` made a kind of.

    Raises:
        ValueError: it is no kind.
    """
    user, _, name = kind.partition(" ")
    return int(user), name
