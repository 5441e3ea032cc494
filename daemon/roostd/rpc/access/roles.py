"""Roles: which user may call which method, by the user id that the kernel gives."""

import grp
import os
import pwd
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Protocol, TypeVar

import grpc
import structlog

from roost_engine.domain.errors import ConfigError
from roost_proto.v1 import interference_pb2, mode_pb2, operator_pb2, policy_pb2, waste_pb2
from roostd.config.roles import Others, RolesSection
from roostd.rpc.access.peers import Peers
from roostd.rpc.access.socket_front import Caller, SocketFront, caller_of
from roostd.rpc.errors import Context, Handler

_log = structlog.get_logger(__name__)


class Role(IntEnum):
    """What a user may do; each role may do what the ones before it may."""

    NONE = 0  # nothing but health checks and reflection
    OWNER = 1  # ask for the state of roostd, and for its own jobs
    VIEWER = 2  # ask everything
    OPERATOR = 3  # make changes that can be taken back at once
    ADMIN = 4  # let a policy, or Roost at all, decide for other users


_NEEDED: Mapping[str, Mapping[str, Role]] = {
    operator_pb2.DESCRIPTOR.services_by_name["Operator"].full_name: {
        "GetStatus": Role.OWNER,
        "ListJobs": Role.OWNER,
        "GetJob": Role.OWNER,
        "ExplainJob": Role.OWNER,
        "GetEta": Role.OWNER,
        "ListNodes": Role.VIEWER,  # a node names the jobs on its GPUs
        "GetNode": Role.VIEWER,
        "GetTopology": Role.VIEWER,
        "ListTimers": Role.VIEWER,
    },
    operator_pb2.DESCRIPTOR.services_by_name["Admin"].full_name: {
        "PinTimer": Role.OPERATOR,
        "UnpinTimer": Role.OPERATOR,
    },
    policy_pb2.DESCRIPTOR.services_by_name["Policies"].full_name: {
        "ListPolicies": Role.VIEWER,
        "ShowPolicies": Role.VIEWER,
        "ExplainShadow": Role.VIEWER,
    },
    waste_pb2.DESCRIPTOR.services_by_name["Waste"].full_name: {
        "GetWaste": Role.OWNER,
    },
    interference_pb2.DESCRIPTOR.services_by_name["Interference"].full_name: {
        "GetInterference": Role.VIEWER,  # it names kinds of jobs of all users
    },
    policy_pb2.DESCRIPTOR.services_by_name["PolicyAdmin"].full_name: {
        "Shadow": Role.OPERATOR,
        "Evaluate": Role.OPERATOR,
        "Rollback": Role.OPERATOR,
        "Promote": Role.ADMIN,
    },
    mode_pb2.DESCRIPTOR.services_by_name["ModeAdmin"].full_name: {
        "SetMode": Role.ADMIN,
    },
}
# Tools need these before they can call anything, and they name no job.
OPEN_SERVICES = (
    "grpc.health.v1.Health",
    "grpc.reflection.v1alpha.ServerReflection",
)
NEEDED_ROLES: Mapping[str, Role] = {
    f"/{service}/{method}": role
    for service, methods in _NEEDED.items()
    for method, role in methods.items()
}


class Access(Protocol):
    """Says whose jobs a caller may see."""

    def only_owner(self, context: Context) -> int | None:
        """Return the user id whose jobs alone the caller may see; None: those of all users."""


class EveryJob:
    """The access of a daemon without roles: every caller sees all jobs."""

    def only_owner(self, context: Context) -> int | None:
        """See Access."""
        return None


class Roles:
    """The roles of a configuration, with names turned into ids.

    Args:
        section: from the configuration.

    Raises:
        ConfigError: there is no such user or group; the text names each.
    """

    def __init__(self, section: RolesSection) -> None:
        self.section = section
        problems: list[str] = []
        self._users: dict[int, Role] = {}
        self._groups: dict[int, Role] = {}
        for role, key in (
            (Role.VIEWER, "viewers"),
            (Role.OPERATOR, "operators"),
            (Role.ADMIN, "admins"),
        ):
            self._add(role, key, getattr(section, key), problems)
        if problems:
            raise ConfigError(problems)
        self._users |= {0: Role.ADMIN, os.geteuid(): Role.ADMIN}
        is_open = section.others is Others.OWN_JOBS
        self._others = Role.OWNER if is_open else Role.NONE

    def role_of(self, uid: int, gids: Iterable[int]) -> Role:
        """Return the highest role of a user and its groups."""
        of_groups = (self._groups.get(gid, Role.NONE) for gid in gids)
        return max(self._others, self._users.get(uid, Role.NONE), *of_groups)

    def _add(self, role: Role, key: str, names: Iterable[str], problems: list[str]) -> None:
        for name in names:
            is_group = name.startswith("@")
            found = _group_id(name[1:]) if is_group else _user_id(name)
            if found is None:
                kind = "group" if is_group else "user"
                problems.append(f"roles.{key}: {name}: no such {kind} on this machine")
                continue
            # The roles are added from the lowest up, so the highest one stays.
            (self._groups if is_group else self._users)[found] = role


class RoleCheck(grpc.aio.ServerInterceptor):
    """Refuses calls for which the caller's role is too low, and unknown methods.

    Args:
        section: returns the configuration in effect; a reload may change it.
        front: knows the callers' groups.

    Raises:
        ConfigError: the configuration names a user or group that does not exist.
    """

    def __init__(self, section: Callable[[], RolesSection], front: SocketFront) -> None:
        self._section, self._front = section, front
        self._roles = Roles(section())
        self._lines = Peers()  # so that a user cannot fill the log

    def only_owner(self, context: Context) -> int | None:
        """See Access."""
        caller = caller_of(context.peer())
        assert caller is not None, "a call without a user was let through"
        return caller.uid if self.role_of(context) <= Role.OWNER else None

    def role_of(self, context: Context) -> Role:
        """Return the caller's role; NONE for a caller whose user is not known (over TCP)."""
        peer = context.peer()
        caller = caller_of(peer)
        if caller is None:
            return Role.NONE
        section = self._section()
        if section != self._roles.section:
            self._roles = Roles(section)
        return self._roles.role_of(caller.uid, self._front.groups_of(peer))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """See grpc.aio.ServerInterceptor."""
        handler: Any = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.split("/")[1] in OPEN_SERVICES:
            return handler  # type: ignore[no-any-return]
        needed = NEEDED_ROLES.get(method)
        if needed is None or handler.unary_unary is None:
            return None  # a method without a role is not served
        answer: Handler = handler._replace(unary_unary=self._checked(handler, method, needed))
        return answer

    def _checked(
        self, handler: Any, method: str, needed: Role
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        handle = handler.unary_unary

        async def answer(request: Any, context: Context) -> Any:
            role = self.role_of(context)
            if role < needed:
                caller = caller_of(context.peer())
                self._log_denied(method, caller)
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, _why(caller, role, needed))
            return await handle(request, context)

        return answer

    def _log_denied(self, method: str, caller: Caller | None) -> None:
        uid = None if caller is None else caller.uid
        left_out_count = self._lines.admit_line(f"uid {uid}")
        if left_out_count is not None:
            _log.warning("call_denied", method=method, uid=uid, left_out_count=left_out_count)


def _why(caller: Caller | None, role: Role, needed: Role) -> str:
    if caller is None:
        return "this port does not say which user calls; use the UNIX socket of roostd"
    has = "has no role" if role is Role.NONE else f"is {role.name.lower()}"
    return (
        f"this call needs the role {needed.name.lower()}, and the user {has}; "
        "an administrator can add it to roles in roostd.yaml"
    )


_Id = TypeVar("_Id")


def _user_id(name: str) -> int | None:
    if name.isascii() and name.isdecimal():
        return int(name)
    return _or_none(lambda: pwd.getpwnam(name).pw_uid)


def _group_id(name: str) -> int | None:
    if name.isascii() and name.isdecimal():
        return int(name)
    return _or_none(lambda: grp.getgrnam(name).gr_gid)


def _or_none(find: Callable[[], _Id]) -> _Id | None:
    try:
        return find()
    except KeyError:
        return None
