"""Login names: users of jobs as this machine names them."""

import pwd
from functools import cache

from roost_proto.v1 import operator_pb2 as pb
from roostctl.output.quantities import ABSENT, safe_text


def login(job: pb.Job) -> str:
    """Return the login name of a job's user; "-" where Slurm has not named the user."""
    return login_of(job.user_id) if job.HasField("user_id") else ABSENT


@cache
def login_of(user_id: int) -> str:
    """Return the login name on this machine, or the number."""
    try:
        return safe_text(pwd.getpwuid(user_id).pw_name)
    except (KeyError, OverflowError):
        return str(user_id)
