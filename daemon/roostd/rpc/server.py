"""The gRPC servers: one each for probes, people and administrators, so a flood hits only one."""

import asyncio
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from roost_engine.domain.errors import ConfigError
from roost_proto.v1 import (
    interference_pb2,
    interference_pb2_grpc,
    mode_pb2,
    mode_pb2_grpc,
    operator_pb2,
    operator_pb2_grpc,
    placement_pb2,
    placement_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    telemetry_pb2,
    telemetry_pb2_grpc,
    waste_pb2,
    waste_pb2_grpc,
)
from roostd.config.listen import Listen
from roostd.ops import grpc_wakeups
from roostd.ops.files import file_limit
from roostd.ops.metrics import Metrics
from roostd.rpc.access.certificates import CertificateFiles, Revocations
from roostd.rpc.access.in_flight import CallsInFlight
from roostd.rpc.access.limits import operator_options, probe_options
from roostd.rpc.access.roles import Access, RoleCheck
from roostd.rpc.access.socket_files import clear_socket, guard_socket
from roostd.rpc.access.socket_front import SocketFront
from roostd.rpc.errors import ErrorInterceptor
from roostd.rpc.services.admin import AdminService, ReportEvent
from roostd.rpc.services.interference import InterferenceService
from roostd.rpc.services.modes import ModeAdminService, ModeDesk
from roostd.rpc.services.operator import OperatorService
from roostd.rpc.services.placement import PlacementService
from roostd.rpc.services.policies import PoliciesService, PolicyAdminService, PolicyDesk
from roostd.rpc.services.telemetry import TelemetryService
from roostd.rpc.services.waste import WasteService
from roostd.state import DaemonState

TELEMETRY = telemetry_pb2.DESCRIPTOR.services_by_name["Telemetry"].full_name
PLACEMENT = placement_pb2.DESCRIPTOR.services_by_name["Placement"].full_name
OPERATOR = operator_pb2.DESCRIPTOR.services_by_name["Operator"].full_name
ADMIN = operator_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
INTERFERENCE = interference_pb2.DESCRIPTOR.services_by_name["Interference"].full_name
WASTE = waste_pb2.DESCRIPTOR.services_by_name["Waste"].full_name
POLICIES = policy_pb2.DESCRIPTOR.services_by_name["Policies"].full_name
POLICY_ADMIN = policy_pb2.DESCRIPTOR.services_by_name["PolicyAdmin"].full_name
MODE_ADMIN = mode_pb2.DESCRIPTOR.services_by_name["ModeAdmin"].full_name

_CALLS_BESIDE_STREAMS = 1_000  # hooks of jobs that start at the same time


class Servers:
    """All servers, from start to graceful stop.

    Args:
        state: the daemon's state.
        metrics: counts.
        listen: the addresses.
        operator_socket: the UNIX socket for people.
        admin_socket: the UNIX socket for administrators.
        report: reports an event to the engine; see AdminService.
        desk: lets one policy take over from another; None: the services about policies are not
            served.
        modes: changes the modes of partitions; None: that service is not served.

    Attributes:
        telemetry: the service for probes.
        probe_port: the port for probes; for configurations that leave the choice to the kernel.
        operator_port: the loopback port for people; None: there is none.
    """

    def __init__(
        self,
        state: DaemonState,
        metrics: Metrics,
        listen: Listen,
        operator_socket: Path,
        admin_socket: Path,
        report: ReportEvent,
        desk: PolicyDesk | None = None,
        modes: ModeDesk | None = None,
    ) -> None:
        self._state, self._metrics, self._listen = state, metrics, listen
        self._operator_socket, self._admin_socket = operator_socket, admin_socket
        self._report, self._admin_front, self._desk = report, SocketFront(admin_socket), desk
        self._modes = modes
        self._operator_front = SocketFront(operator_socket, "listen.operator_socket")
        self._access: Access | None = None
        operator_checks, admin_checks = self._role_checks()
        self._health = health_aio.HealthServicer()
        with grpc_wakeups.read_at_once(asyncio.get_running_loop()):
            self._probes = grpc.aio.server(
                interceptors=[ErrorInterceptor()],
                options=probe_options(listen.max_node_count, file_limit()),
                maximum_concurrent_rpcs=listen.max_node_count + _CALLS_BESIDE_STREAMS,
            )
        self._operators, self._admins = (
            grpc.aio.server(
                interceptors=[CallsInFlight(), *checks, ErrorInterceptor()],
                options=operator_options(),
            )
            for checks in (operator_checks, admin_checks)
        )
        self._revocations = Revocations(listen.probes_tls.revoked if listen.probes_tls else None)
        self.telemetry = TelemetryService(
            state.board,
            metrics,
            state.version,
            lambda: state.config,
            listen.max_node_count,
            self._revocations,
        )
        self.probe_port = 0
        self.operator_port: int | None = None

    async def start(self) -> None:
        """Open every port.

        Raises:
            ConfigError: a port cannot be opened; the text names it.
        """
        self._add_services()
        tls, address = self._listen.probes_tls, self._listen.probe_address
        try:
            if tls is None:
                self.probe_port = self._probes.add_insecure_port(address)
            else:
                credentials = CertificateFiles(tls).credentials()
                self.probe_port = self._probes.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise ConfigError([f"listen.probes: {address}: {_why(address)}"]) from error
        self._open_operator_ports()
        await self._probes.start()
        await self._operators.start()
        await self._admins.start()
        await self._admin_front.start()
        await self._operator_front.start()
        listen, is_open = self._listen, self._access is not None
        guard_socket(self._operator_socket, listen.operator_group, "listen.operator_group", is_open)
        guard_socket(self._admin_socket, listen.admin_group, "listen.admin_group", is_open)

    async def set_serving(self, is_serving: bool) -> None:
        """Set the answer to health checks of every service: SERVING or NOT_SERVING."""
        serving = health_pb2.HealthCheckResponse.SERVING
        status = serving if is_serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in (
            "",
            TELEMETRY,
            PLACEMENT,
            OPERATOR,
            ADMIN,
            POLICIES,
            POLICY_ADMIN,
            MODE_ADMIN,
            WASTE,
            INTERFERENCE,
        ):
            await self._health.set(service, status)

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls, and let running ones finish."""
        await self._health.enter_graceful_shutdown()
        servers = (self._probes, self._operators, self._admins)
        await asyncio.gather(*(server.stop(grace_s) for server in servers))
        await self._admin_front.stop()
        await self._operator_front.stop()

    def _role_checks(self) -> tuple[list[RoleCheck], list[RoleCheck]]:
        """Return the checks of callers' roles, for questions and for changes; none by default."""
        state = self._state
        if not state.config.roles.enabled:
            return [], []
        questions = RoleCheck(lambda: state.config.roles, self._operator_front)
        self._access = questions
        return [questions], [RoleCheck(lambda: state.config.roles, self._admin_front)]

    def _add_services(self) -> None:
        state = self._state
        if self._desk is not None:
            self._add_policies(self._desk)
        if self._modes is not None:
            modes = ModeAdminService(self._modes)
            mode_pb2_grpc.add_ModeAdminServicer_to_server(modes, self._admins)
        telemetry_pb2_grpc.add_TelemetryServicer_to_server(self.telemetry, self._probes)
        placement = PlacementService(state, self._metrics, self._revocations, self._report)
        placement_pb2_grpc.add_PlacementServicer_to_server(placement, self._probes)
        operator = OperatorService(state, self._access)
        operator_pb2_grpc.add_OperatorServicer_to_server(operator, self._operators)
        waste_pb2_grpc.add_WasteServicer_to_server(
            WasteService(state, self._access), self._operators
        )
        interference_pb2_grpc.add_InterferenceServicer_to_server(
            InterferenceService(state), self._operators
        )
        self._add_standard(self._probes, (TELEMETRY, PLACEMENT))
        self._add_standard(self._operators, (OPERATOR, POLICIES, WASTE, INTERFERENCE))
        admin = AdminService(state, self._report)
        operator_pb2_grpc.add_AdminServicer_to_server(admin, self._admins)
        self._add_standard(self._admins, (ADMIN, POLICY_ADMIN, MODE_ADMIN))

    def _add_policies(self, desk: PolicyDesk) -> None:
        policies = PoliciesService(self._state, desk)
        policy_pb2_grpc.add_PoliciesServicer_to_server(policies, self._operators)
        admin = PolicyAdminService(self._state, desk)
        policy_pb2_grpc.add_PolicyAdminServicer_to_server(admin, self._admins)

    def _add_standard(self, server: grpc.aio.Server, services: Iterable[str]) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*services, health, reflection.SERVICE_NAME), server)

    def _open_operator_ports(self) -> None:
        self._operator_front.make_folder()
        _open_socket(self._operators, self._operator_front.inner_path, "listen.operator_socket")
        self._admin_front.make_folder()
        _open_socket(self._admins, self._admin_front.inner_path, "listen.admin_socket")
        tcp = self._listen.operator_tcp
        if tcp is None:
            return
        try:
            self.operator_port = self._operators.add_insecure_port(tcp)
        except RuntimeError as error:
            raise ConfigError([f"listen.operator_tcp: {tcp}: {_why(tcp)}"]) from error


def _open_socket(server: grpc.aio.Server, path: Path, key: str) -> None:
    clear_socket(path, key)
    mask = os.umask(0o177)  # only the owner, until guard_socket has set the group
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise ConfigError([f"{key}: {path}: {_why(path)}"]) from error
    finally:
        os.umask(mask)


def _why(address: str | Path) -> str:
    """Return why an address cannot be bound: gRPC's error has no reason, so bind it again."""
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    host, _, port = str(address).rpartition(":")
    if ":" in host:
        family = socket.AF_INET6
    where = str(address) if isinstance(address, Path) else (host.strip("[]"), int(port))
    try:
        with socket.socket(family) as listener:
            listener.bind(where)
    except (OSError, UnicodeError) as error:  # a label of a name that is too long
        return getattr(error, "strerror", None) or str(error)
    return "cannot be listened on"
