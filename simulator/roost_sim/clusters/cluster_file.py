"""Cluster files: reads a cluster from YAML, or its racks from a map of a Clos network.

Format: docs/simulator/clusters.md.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.domain.errors import TopologyError
from roost_engine.domain.model import NodeName
from roost_engine.domain.topology import LinkMatrix, parse_topo_matrix
from roost_formats.yaml.problems import describe
from roost_formats.yaml.tree import Tree, read_tree
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, SimNode, TierSpec
from roost_sim.clusters.link_shapes import SHAPES, shape_names
from roost_sim.clusters.presets import PRESET_NAMES, preset
from roost_sim.errors import ClusterError

MAX_NODES = 100_000
_MOST_BYTES = 16 << 20  # a map of 100,000 hosts has 5 MiB
CLOS_COLUMNS = ("host", "psw", "asw")

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Tier(_Model):
    gbytes_per_s: _Positive
    latency_us: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    oversubscription: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0


class _Tiers(_Model):
    node: _Tier
    rack: _Tier
    pod: _Tier
    core: _Tier | None = None


class _Kind(_Model):
    links: str | None = None
    topology_file: str | None = None
    gpu_model: str = ""
    cpus: Annotated[int, Field(ge=1)] = 64
    memory_gib: _Positive = 512.0

    @model_validator(mode="after")
    def _one_source(self) -> "_Kind":
        if (self.links is None) == (self.topology_file is None):
            raise ValueError("want either links or topology_file")
        if self.links is not None and self.links not in SHAPES:
            raise ValueError(f"no links {self.links}; there are {', '.join(shape_names())}")
        return self


class _Rack(_Model):
    nodes: dict[str, Annotated[int, Field(ge=1, le=MAX_NODES)]]
    pod: str = ""


class _Clos(_Model):
    file: str
    node_kind: str


class _Cluster(_Model):
    name: str = ""
    tiers: _Tiers
    node_kinds: dict[str, _Kind]
    racks: dict[str, _Rack] = {}
    clos: _Clos | None = None

    @model_validator(mode="after")
    def _racks_or_clos(self) -> "_Cluster":
        if bool(self.racks) == (self.clos is not None):
            raise ValueError("want either racks or clos")
        return self


def load_cluster(name_or_path: str) -> ClusterSpec:
    """Load a preset by its name, a part of one ("venus/3": every third rack), or a YAML file.

    Raises:
        ClusterError: no such preset or file, or the file is wrong: every problem with its line.
    """
    name, _, part = name_or_path.partition("/")
    if name in PRESET_NAMES and (not part or part.isdecimal()):
        return preset(name).every_rack(int(part or 1))
    path = Path(name_or_path)
    if not path.exists():
        known = ", ".join(PRESET_NAMES)
        raise ClusterError([f"{name_or_path}: no such file, and no preset; there are {known}"])
    return read_cluster(path)


def read_cluster(path: Path) -> ClusterSpec:
    """Read a cluster from a YAML file.

    Raises:
        ClusterError: every problem with file and line.
    """
    tree = read_tree(_read_text(path))
    problems = [f"{path}:{problem.line}: {problem.text}" for problem in tree.problems]
    if problems:
        raise ClusterError(problems)
    sources = {key: f"{path}:{line}" for key, line in tree.lines.items() if key}
    try:
        model = _Cluster.model_validate(tree.values)
    except ValidationError as error:
        raise ClusterError(list(describe(error, _Cluster, sources, f"{path}:1"))) from error
    return _Builder(path, tree, model).build()


def read_clos(path: Path, kind: NodeKind) -> tuple[SimNode, ...]:
    """Read nodes from a map of a three-tier Clos network, as Alibaba's Lingjun dataset has one.

    A rack is the hosts that share leaf (asw) and pod switch (psw): leaf numbers start again in each
    pod. A pod is the hosts that share a psw.

    Args:
        path: CSV with columns host, psw, asw.
        kind: of all nodes.

    Raises:
        ClusterError: file, line and reason.
    """
    rows = csv.DictReader(_read_text(path).splitlines())
    missing = [name for name in CLOS_COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise ClusterError([f"{path}:1: no column {missing[0]} in the header"])
    nodes: dict[str, SimNode] = {}
    problems = list[str]()
    for row in rows:
        host, psw, asw = (row[name] for name in CLOS_COLUMNS)
        if not (host and psw and asw):
            problems.append(f"{path}:{rows.line_num}: want host, psw and asw")
        elif host in nodes:
            problems.append(f"{path}:{rows.line_num}: host {host} stands twice")
        else:
            nodes[host] = SimNode(NodeName(host), kind, f"{psw}/{asw}", psw)
    if problems or not nodes:
        raise ClusterError(problems or [f"{path}: no hosts"])
    return tuple(nodes.values())


class _Builder:
    """Builds a cluster from a validated file; collects every inconsistency."""

    def __init__(self, path: Path, tree: Tree, model: _Cluster) -> None:
        self._path, self._tree, self._model = path, tree, model
        self._problems: list[str] = []

    def build(self) -> ClusterSpec:
        kinds = dict(self._kinds())
        nodes = self._clos_nodes(kinds) if self._model.clos else tuple(self._rack_nodes(kinds))
        if self._problems:
            raise ClusterError(self._problems)
        return ClusterSpec(
            name=self._model.name or self._path.stem,
            source=str(self._path),
            nodes=nodes,
            tiers=_tier_specs(self._model.tiers),
        )

    def _add_problem(self, problem: str, *key: str) -> None:
        self._problems.append(f"{self._path}:{self._tree.lines.get(key, 1)}: {problem}")

    def _kinds(self) -> Iterator[tuple[str, NodeKind]]:
        for name, kind in self._model.node_kinds.items():
            links = SHAPES[kind.links] if kind.links else self._matrix(name, kind)
            if links is not None:
                yield (
                    name,
                    NodeKind(
                        name=name,
                        links=links,
                        gpu_model=kind.gpu_model,
                        cpu_count=kind.cpus,
                        memory_bytes=int(kind.memory_gib * 2**30),
                    ),
                )

    def _matrix(self, name: str, kind: _Kind) -> LinkMatrix | None:
        path = self._path.parent / str(kind.topology_file)
        try:
            links = parse_topo_matrix(_read_text(path), str(path))
        except (TopologyError, ClusterError) as error:
            self._add_problem(str(error), "node_kinds", name, "topology_file")
            return None
        if links.gpu_count > MAX_GPUS:
            problem = f"{path}: {links.gpu_count} GPUs; Roost places jobs on nodes of {MAX_GPUS}"
            self._add_problem(f"{problem} at most", "node_kinds", name, "topology_file")
            return None
        return links

    def _rack_nodes(self, kinds: Mapping[str, NodeKind]) -> Iterator[SimNode]:
        number = 0
        for rack, spec in self._model.racks.items():
            for kind_name, count in spec.nodes.items():
                kind = kinds.get(kind_name)
                if kind_name not in self._model.node_kinds:
                    known = ", ".join(self._model.node_kinds)
                    self._add_problem(
                        f"no node kind {kind_name}; there are {known}",
                        *("racks", rack, "nodes", kind_name),
                    )
                if kind is None:
                    continue
                if number + count > MAX_NODES:
                    self._add_problem(f"more than {MAX_NODES} nodes", "racks", rack)
                    return
                for _ in range(count):
                    yield SimNode(NodeName(f"n{number:05d}"), kind, rack, spec.pod)
                    number += 1

    def _clos_nodes(self, kinds: Mapping[str, NodeKind]) -> tuple[SimNode, ...]:
        clos = self._model.clos
        assert clos is not None
        if clos.node_kind not in self._model.node_kinds:
            self._add_problem(f"no node kind {clos.node_kind}", "clos", "node_kind")
        kind = kinds.get(clos.node_kind)
        if kind is None:
            return ()
        try:
            return read_clos(self._path.parent / clos.file, kind)
        except ClusterError as error:
            self._problems.extend(error.problems)
            return ()


def _tier_specs(tiers: _Tiers) -> dict[NetworkTier, TierSpec]:
    found = {
        NetworkTier.NODE: tiers.node,
        NetworkTier.RACK: tiers.rack,
        NetworkTier.POD: tiers.pod,
        NetworkTier.CORE: tiers.core or tiers.pod,
    }
    return {
        tier: TierSpec(
            bandwidth_bytes_per_s=spec.gbytes_per_s * 1e9,
            latency_s=spec.latency_us * 1e-6,
            oversubscription=spec.oversubscription,
        )
        for tier, spec in found.items()
    }


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ClusterError([f"{path}: larger than {_MOST_BYTES >> 20} MiB"])
        return content.decode()
    except UnicodeDecodeError as error:
        raise ClusterError([f"{path}: not UTF-8 at byte {error.start}"]) from error
    except OSError as error:
        raise ClusterError([f"{path}: cannot be read: {error.strerror}"]) from error
