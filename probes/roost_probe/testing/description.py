"""A fake node in YAML: topology, model, load and faults. docs/probe.md describes the format.

model: NVIDIA A100-PCIE-40GB
topology: bridges8            # a shipped sample, a file, or the matrix itself
minor_numbers: [3, 2, 1, 0, 7, 6, 5, 4]
load: {sm_frac: 0.5}          # of every GPU
gpus:
  3: {power_w: 250, mig_enabled: true}
faults:
  - {kind: lost, gpu: 5}
  - {kind: hang, call: nvmlDeviceGetPowerUsage}
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, TypeVar

import yaml

from roost_engine.domain.errors import TopologyError
from roost_probe.testing.errors import DescriptionError
from roost_probe.testing.matrix import TopoText, read_topo_text, sample_text
from roost_probe.testing.state import MAX_GPUS

Yaml: TypeAlias = str | int | float | bool | list["Yaml"] | dict[str, "Yaml"] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """What can be set on one GPU, at the start or while it runs. None: leave as it is."""

    sm_frac: float | None = None
    memory_activity_frac: float | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    sm_clock_hz: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    throttle_reasons: int | None = None
    ecc_uncorrected_count: int | None = None
    mig_enabled: bool | None = None
    minor_number: int | None = None


IDLE = GpuSettings(
    sm_frac=0.0,
    memory_activity_frac=0.0,
    memory_bytes=40 * 2**30,
    memory_used_bytes=0,
    memory_reserved_bytes=2**29,
    power_w=55.0,
    temperature_c=34,
    sm_clock_hz=210e6,
    pcie_tx_bytes_per_s=0.0,
    pcie_rx_bytes_per_s=0.0,
    nvlink_tx_bytes_per_s=0.0,
    nvlink_rx_bytes_per_s=0.0,
    throttle_reasons=1,  # nvmlClocksEventReasonGpuIdle
    ecc_uncorrected_count=0,
    mig_enabled=False,
)


class Fault(StrEnum):
    """Faults that a description or the command line can inject."""

    LOST = "lost"  # the GPU has fallen off the bus
    XID = "xid"  # an XID event; code says which
    HANG = "hang"  # the call never returns
    CRASH = "crash"  # the call ends the process with SIGSEGV
    ERROR = "error"  # the call returns code
    ABSENT = "absent"  # the quantity is NOT_SUPPORTED
    INIT = "init"  # nvmlInit fails with code


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault. gpu None: every GPU."""

    kind: Fault
    gpu: int | None = None
    call: str | None = None
    quantity: str | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """One fake node, checked."""

    topology: TopoText
    model: str = "NVIDIA A100-PCIE-40GB"
    driver_version: str = "580.95.05"
    nvswitch: bool | None = None
    minor_numbers: tuple[int, ...] | None = None
    load: GpuSettings = IDLE
    gpus: Mapping[int, GpuSettings] = field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()

    def __post_init__(self) -> None:
        count = self.topology.links.gpu_count
        if count > MAX_GPUS:
            raise DescriptionError(f"{count} GPUs; the fake driver has room for {MAX_GPUS}")
        if self.minor_numbers is not None and len(self.minor_numbers) != count:
            raise DescriptionError(f"{len(self.minor_numbers)} minor_numbers for {count} GPUs")
        for index in [*self.gpus, *(f.gpu for f in self.faults if f.gpu is not None)]:
            if not 0 <= index < count:
                raise DescriptionError(f"gpu {index}: the topology has GPUs 0 to {count - 1}")


def load_topology(name: str, folder: Path = Path()) -> TopoText:
    """Read a topology: matrix text, a file (relative to `folder`), or the name of a sample.

    Raises:
        DescriptionError: neither of these, or the matrix is wrong; names the line.
    """
    try:
        if "\n" in name.strip():
            return read_topo_text(name, "topology")
        path = folder / name
        if path.is_file():
            return read_topo_text(path.read_text(), str(path))
        return read_topo_text(sample_text(name), name)
    except TopologyError as error:
        raise DescriptionError(str(error)) from error


def load_description(path: Path) -> NodeDescription:
    """Read a description file.

    Raises:
        DescriptionError: not readable, no YAML, or wrong; names file, line and key.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise DescriptionError(f"{path}: {error.strerror}") from error
    return parse_description(text, str(path), path.parent)


def parse_description(
    text: str, source: str = "description", folder: Path = Path()
) -> NodeDescription:
    """Read a description from text; see load_description."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value: Yaml = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DescriptionError(f"{source}: no valid YAML: {error}") from error
    lines = dict[str, int]()
    _note_lines(root, "", lines)
    try:
        return _build(value, folder)
    except _Wrong as wrong:
        line = lines.get(wrong.key, 1)
        raise DescriptionError(f"{source}:{line}: {wrong.key}: {wrong.problem}") from wrong
    except DescriptionError as error:
        raise DescriptionError(f"{source}: {error}") from error


class _Wrong(Exception):
    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key, self.problem = key, problem


def _note_lines(node: yaml.Node | None, key: str, lines: dict[str, int]) -> None:
    if node is None:
        return
    lines.setdefault(key, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for name, child in node.value:
            inner = f"{key}.{name.value}".lstrip(".")
            lines[inner] = name.start_mark.line + 1
            _note_lines(child, inner, lines)
    if isinstance(node, yaml.SequenceNode):
        for position, child in enumerate(node.value):
            _note_lines(child, f"{key}.{position}", lines)


def _build(value: Yaml, folder: Path) -> NodeDescription:
    known = [f.name for f in fields(NodeDescription)]
    top = _mapping(value, "", known)
    topology = _typed(top.get("topology"), str, "topology")
    nvswitch = top.get("nvswitch")
    minors = top.get("minor_numbers")
    given = NodeDescription(topology=load_topology(topology, folder))
    return NodeDescription(
        topology=given.topology,
        model=_typed(top.get("model", given.model), str, "model"),
        driver_version=_typed(
            top.get("driver_version", given.driver_version), str, "driver_version"
        ),
        nvswitch=None if nvswitch is None else _typed(nvswitch, bool, "nvswitch"),
        minor_numbers=None if minors is None else _integers(minors, "minor_numbers"),
        load=merge(IDLE, _settings(top.get("load", {}), "load")),
        gpus=_gpus(top.get("gpus", {})),
        faults=_faults(top.get("faults", [])),
    )


def merge(base: GpuSettings, over: GpuSettings) -> GpuSettings:
    """Return the base, with what `over` states in its place."""
    names = [f.name for f in fields(GpuSettings)]
    stated = {n: v for n in names if (v := getattr(over, n)) is not None}
    return GpuSettings(**{n: stated.get(n, getattr(base, n)) for n in names})


def parse_settings(pairs: Mapping[str, Yaml]) -> GpuSettings:
    """Settings from names and values, as on the command line.

    Raises:
        DescriptionError: an unknown name or a value of the wrong type.
    """
    try:
        return _settings(dict(pairs), "")
    except _Wrong as wrong:
        raise DescriptionError(f"{wrong.key}: {wrong.problem}") from wrong


def _settings(value: Yaml, key: str) -> GpuSettings:
    types = {f.name: f.type for f in fields(GpuSettings)}
    settings = dict[str, float | int | bool]()
    for name, item in _mapping(value, key, list(types)).items():
        want = types[name]
        inner = f"{key}.{name}".lstrip(".")
        if want == (bool | None):
            settings[name] = _typed(item, bool, inner)
        elif want == (int | None):
            settings[name] = _typed(item, int, inner)
        else:
            settings[name] = _number(item, inner)
    return GpuSettings(**settings)  # type: ignore[arg-type]  # types were checked one by one


def _gpus(value: Yaml) -> dict[int, GpuSettings]:
    if not isinstance(value, dict) or not all(isinstance(k, int) for k in value):
        raise _Wrong("gpus", "want a mapping from GPU numbers to settings")
    return {int(k): _settings(v, f"gpus.{k}") for k, v in value.items()}


def _faults(value: Yaml) -> tuple[FaultSpec, ...]:
    if not isinstance(value, list):
        raise _Wrong("faults", "want a list")
    known = [f.name for f in fields(FaultSpec)]
    faults = list[FaultSpec]()
    for position, item in enumerate(value):
        key = f"faults.{position}"
        given = _mapping(item, key, known)
        kinds = [kind.value for kind in Fault]
        if given.get("kind") not in kinds:
            raise _Wrong(key, f"kind is {given.get('kind')!r}; want one of {', '.join(kinds)}")
        faults.append(
            FaultSpec(
                kind=Fault(str(given["kind"])),
                gpu=_optional(given.get("gpu"), int, f"{key}.gpu"),
                call=_optional(given.get("call"), str, f"{key}.call"),
                quantity=_optional(given.get("quantity"), str, f"{key}.quantity"),
                code=_optional(given.get("code"), int, f"{key}.code"),
            )
        )
    return tuple(faults)


def _mapping(value: Yaml, key: str, known: list[str]) -> dict[str, Yaml]:
    if not isinstance(value, dict):
        raise _Wrong(key, f"want a mapping, got {type(value).__name__}")
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            cure = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise _Wrong(f"{key}.{name}".lstrip("."), f"unknown key, {cure}")
    return value


def _typed(value: Yaml, want: type[T], key: str) -> T:
    is_stray_bool = isinstance(value, bool) and want is not bool
    if not isinstance(value, want) or is_stray_bool:
        raise _Wrong(key, f"want {want.__name__}, got {value!r}")
    return value


def _number(value: Yaml, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _Wrong(key, f"want a number, got {value!r}")
    try:
        return float(value)  # YAML 1.1 reads 1e9, which lacks a dot, as text
    except ValueError as error:
        raise _Wrong(key, f"want a number, got {value!r}") from error


def _optional(value: Yaml, want: type[T], key: str) -> T | None:
    return None if value is None else _typed(value, want, key)


def _integers(value: Yaml, key: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _Wrong(key, "want a list of integers")
    return tuple(_typed(item, int, key) for item in value)
