"""The types of settings, and the base class of all sections of the configuration."""

import ipaddress
import os
import re
from math import inf
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from roost_slurm.hooks.heartbeat import is_name
from roost_slurm.text.hostlist import expand

NEVER = "never"  # in place of a number of seconds
MOST_S = 1e9  # 30 years: threads, timers and dates of the system cannot hold much more
MOST_COUNT = 1_000_000_000  # numbers that the engine may add and multiply in 64 bits
_LONGEST_SOCKET_BYTES = 100  # Linux takes 107; a socket that knows its users needs a folder beside
NO_MODEL = "none"  # in place of the path of a model


def _host_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    is_port = re.fullmatch(r"[0-9]{1,5}", port) is not None and int(port) <= 65535
    if not colon or not host or not is_port:
        raise ValueError(f"want HOST:PORT, got {text}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"want [{host}]:{port}, got {text}")
    return text


def is_loopback(text: str) -> bool:
    """Return whether HOST:PORT is reachable from this machine only."""
    host = text.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _loopback(text: str) -> str:
    if not is_loopback(_host_port(text)):
        raise ValueError(f"want an address of this machine such as 127.0.0.1:7472, got {text}")
    return text


def host_list(text: str) -> str:
    """Check a list of nodes in Slurm's brackets.

    Raises:
        ValueError: it cannot be read.
    """
    if text:
        expand(text)
    return text


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"want an absolute path, got {path}")
    return path


def _socket(path: Path) -> Path:
    if not path.name:
        raise ValueError(f"want the path of a file, got {path}")
    if len(os.fsencode(path)) > _LONGEST_SOCKET_BYTES:
        raise ValueError(f"want a path of at most {_LONGEST_SOCKET_BYTES} bytes, got {path}")
    return path


def _partition_name(text: str) -> str:
    if not is_name(text):
        raise ValueError("no name of a partition: want up to 64 letters, digits and _.+-")
    return text


def _run_time_model(text: str) -> str:
    if text == NO_MODEL or Path(text).is_absolute():
        return text
    none_ships = "no model of run times ships with Roost: " if text == "builtin" else ""
    raise ValueError(
        f"{none_ships}want none, or the absolute path of a model that roost-train runtimes has"
        f" written, got {text}"
    )


def _or_never(value: object) -> object:
    return inf if value == NEVER else value


HostPort = Annotated[str, AfterValidator(_host_port)]
LoopbackPort = Annotated[str, AfterValidator(_loopback)]
AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_absolute)]
SocketPath = Annotated[AbsolutePath, AfterValidator(_socket)]
PartitionName = Annotated[str, AfterValidator(_partition_name)]
RunTimeModelPath = Annotated[str, AfterValidator(_run_time_model)]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["logfmt", "json"]
Seconds = Annotated[float, Field(gt=0, le=MOST_S, allow_inf_nan=False)]
SecondsFromZero = Annotated[float, Field(ge=0, le=MOST_S, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST_COUNT)]
Factor = Annotated[float, Field(ge=0, le=MOST_COUNT, allow_inf_nan=False)]
CountFromZero = Annotated[int, Field(ge=0, le=MOST_COUNT)]
SecondsOrNever = Annotated[float, BeforeValidator(_or_never), Field(gt=0)]
FactorOrNever = Annotated[float, BeforeValidator(_or_never), Field(ge=1)]


class Section(BaseModel):
    """Base of all sections: frozen; unknown keys are refused and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def in_words(value: object) -> str:
    """Return a value as `check-config --show` prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value == inf:
            return NEVER
        case tuple() | dict():
            return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, tuple) else "{}"
        case _:
            return str(value)
