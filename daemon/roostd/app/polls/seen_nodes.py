"""The nodes as Slurm showed them at the last poll."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from roost_engine.domain.events import Event
from roost_engine.domain.model import NodeName, NodeSpec
from roost_slurm.text.gres_used import UNREGISTERED
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.rules.site_rules import SiteRules
from roostd.slurm.stranded_gpus import StrandedGpus
from roostd.slurm.sync import diff_nodes

_log = structlog.get_logger(__name__)

_UNTYPED_CURE = (
    "Roost gives out the other nodes of their partitions only, and leaves jobs that do not fit"
    " there to plain Slurm; see roost-slurm migrate --plan"
)
_HIDDEN_CURE = (
    "Slurm shows no powered-down cloud node: jobs that do not fit on the others are left to plain"
    " Slurm, which wakes one; add cloud to PrivateData in slurm.conf, and Roost chooses among all"
)
_ABSENT_CURE = "see the names under partitions in roostd.yaml; no node with GPUs is in these"
_STRANDED_CURE = (
    "scontrol reconfigure: slurmctld then counts again. Until then jobs that need these GPUs wait,"
    " since slurmctld takes them for used by jobs that have ended"
)
_LONGEST_REGISTRATION_S = 60.0
_TRANSITIONS = (UNREGISTERED, "not_responding", "no_respond", "powering", "boot")


class SeenNodes:
    """The nodes with GPUs, and what the readings of the queue need of them.

    Attributes:
        nodes: the nodes.
        specs, socket_counts: of each; the same objects as long as nothing in them has changed.
        closed: the nodes that take no job now, with their partitions.
        are_registering: whether a slurmctld that has just started, or taken over, knows fewer of
            the nodes than it awaits; for a minute at most, since some may never come.
    """

    def __init__(self) -> None:
        self.nodes: tuple[SlurmNode, ...] = ()
        self.specs: Mapping[NodeName, NodeSpec] = {}
        self.socket_counts: Mapping[NodeName, int] = {}
        self.closed: Mapping[NodeName, tuple[str, ...]] = {}
        self.are_registering = False
        self._rules = SiteRules(), SiteRules()  # as last given, and with the nodes
        self._warned = frozenset[NodeName]()
        self._has_hidden = False
        self._registering_since_s: float | None = None  # engine time
        self._stranded = StrandedGpus()
        self._warned_stranded = frozenset[NodeName]()
        self._warned_absent = frozenset[str]()

    @property
    def states(self) -> Mapping[NodeName, str]:
        """The state of each node, in Slurm's words."""
        return {node.spec.name: node.state for node in self.nodes}

    @property
    def are_changing(self) -> bool:
        """Whether a node that no job may use is expected to be usable soon."""
        return any(map(_is_in_transition, self.nodes))

    @property
    def are_blocked(self) -> bool:
        """Whether jobs that are exclusive to a switch or block keep nodes closed (24.11, 26.05)."""
        return any("blocked" in node.state for node in self.nodes)

    def apply(self, nodes: tuple[SlurmNode, ...], at_s: float) -> Sequence[Event]:
        """Apply what Slurm shows now, and return what has changed, as events."""
        events = diff_nodes([node.spec for node in self.nodes], nodes, at_s)
        self.nodes = nodes
        self._note_registration(at_s)
        closed = (node.spec for node in nodes if not node.spec.usable)
        self.closed = {spec.name: spec.partitions for spec in closed}
        specs = {node.spec.name: node.spec for node in nodes}
        self.specs = specs if specs != self.specs else self.specs
        sockets = {node.spec.name: node.socket_count for node in nodes}
        self.socket_counts = sockets if sockets != self.socket_counts else self.socket_counts
        return events

    def _note_registration(self, at_s: float) -> None:
        awaited_count = sum(node.is_registering for node in self.nodes)
        known_count = sum(node.spec.usable and not node.is_registering for node in self.nodes)
        if awaited_count <= known_count:
            self._registering_since_s, self.are_registering = None, False
            return
        if self._registering_since_s is None:
            self._registering_since_s = at_s
        self.are_registering = at_s - self._registering_since_s < _LONGEST_REGISTRATION_S

    def untyped(self, is_enforced: Callable[[str], bool]) -> Mapping[NodeName, tuple[str, ...]]:
        """Return the partitions of the nodes whose GPUs have no types by index.

        Nodes that are new among those of enforced partitions are logged.
        """
        found = {node.spec.name: node.spec.partitions for node in self.nodes if not node.is_typed}
        enforced = {name for name, partitions in found.items() if any(map(is_enforced, partitions))}
        if new := sorted(enforced - self._warned):
            _log.warning("nodes_without_types_by_index", nodes=new[:20], cure=_UNTYPED_CURE)
        self._warned = frozenset(enforced)
        return found

    def hidden(
        self, rules: SiteRules, is_enforced: Callable[[str], bool]
    ) -> Mapping[str, frozenset[NodeName]]:
        """Return by partition the nodes that Slurm hides; logged once where one is enforced."""
        enforced = sorted(filter(is_enforced, rules.hidden))
        if enforced and not self._has_hidden:
            _log.warning("nodes_hidden", partitions=enforced, cure=_HIDDEN_CURE)
        self._has_hidden = self._has_hidden or bool(enforced)
        return rules.hidden

    def stranded(self, snapshot: QueueSnapshot) -> Mapping[NodeName, int]:
        """Return how many GPUs of each node slurmctld counts as used though no job has them.

        To be called once for each reading of the nodes. Nodes that had no such GPU before are
        logged.

        Args:
            snapshot: the queue, read after the nodes.
        """
        found = self._stranded.compare(self.nodes, snapshot)
        if new := sorted(found.keys() - self._warned_stranded):
            _log.warning("gpus_stranded_in_slurm", nodes=new[:20], cure=_STRANDED_CURE)
        self._warned_stranded = frozenset(found)
        return found

    def warn_of_absent(self, partitions: Iterable[str]) -> frozenset[str]:
        """Return those of some partitions that no node with GPUs is in; none before the nodes.

        Partitions that were not absent before are logged.
        """
        known = {name for node in self.nodes for name in node.spec.partitions}
        absent = frozenset(partitions) - known if known else frozenset()
        if absent - self._warned_absent:
            _log.warning("partition_absent", partitions=sorted(absent), cure=_ABSENT_CURE)
        self._warned_absent = absent
        return absent

    def added_to(self, rules: SiteRules) -> SiteRules:
        """Return the rules with the nodes; the same object as long as neither has changed."""
        given, known = self._rules
        is_same = known.nodes is self.specs and known.socket_counts is self.socket_counts
        if given is not rules or not is_same:
            added = replace(rules, nodes=self.specs, socket_counts=self.socket_counts)
            self._rules = rules, added
        return self._rules[1]


def _is_in_transition(node: SlurmNode) -> bool:
    """Whether a node that no job may use is expected to be usable soon."""
    if node.spec.usable or node.state.startswith("down"):
        return False
    return any(word in node.state for word in _TRANSITIONS)
