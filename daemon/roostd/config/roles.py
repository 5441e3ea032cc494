"""The section about roles: which users may ask, steer and change roostd."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from roostd.config.values import Section


class Others(StrEnum):
    """What users without a role may do."""

    NOTHING = "nothing"
    OWN_JOBS = "own-jobs"  # ask for the state of roostd and for their own jobs


AnyOthers = Annotated[Others, Field(strict=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class RolesSection(Section):
    """Which users may do what on the UNIX sockets; docs/operations.md has the table."""

    enabled: bool = Field(
        default=False,
        description="true: the kernel's user id decides about each call; false: every user"
        " that may open a socket may use all of it",
    )
    viewers: Names = Field(
        default=(),
        description="users, user ids and @groups that may ask everything, of the jobs of all users",
    )
    operators: Names = Field(
        default=(),
        description="the same, who may also pin timers, take policies out, and try them in shadow",
    )
    admins: Names = Field(
        default=(),
        description="the same, who may also promote policies and set modes; root always may",
    )
    others: AnyOthers = Field(
        default=Others.NOTHING, description="nothing, or own-jobs: a user may ask of jobs it owns"
    )
