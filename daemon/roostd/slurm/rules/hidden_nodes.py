"""The nodes that Slurm starts jobs on and shows nowhere: powered-down cloud nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from roost_engine.domain.model import NodeName
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.scontrol import ShownNode
from roostd.slurm.rules.site_rules import SiteRules


class HiddenNodes:
    """Finds the nodes of partitions that `scontrol show nodes` leaves out.

    Before 23.02 Slurm leaves out a node with State=CLOUD while it is powered down, unless
    PrivateData has "cloud", but wakes it for a job that fits nowhere else.
    """

    def __init__(self) -> None:
        self._shown: frozenset[str] | None = None  # None: the nodes have not been read yet
        self._without_gpus = set[str]()  # when they were shown last
        self._found: Mapping[str, frozenset[NodeName]] = {}
        self._found_for: tuple[object, ...] = ()
        self._rules = SiteRules(), SiteRules()  # as last given, and with the hidden nodes

    def note(self, nodes: Iterable[ShownNode]) -> None:
        """Store the names of all nodes that Slurm shows now."""
        gpu_counts = {node.name: node.gpu_count for node in nodes}
        self._shown = frozenset(gpu_counts)
        self._without_gpus -= self._shown
        self._without_gpus |= {name for name, count in gpu_counts.items() if not count}

    def added_to(self, rules: SiteRules) -> SiteRules:
        """Return the rules with the hidden nodes of each partition that has some.

        The same object as long as neither has changed.
        """
        names = {one.name: one.nodes for one in rules.partitions.values()}
        asked = rules.scheduling.hides_nodes, names, self._shown
        if asked != self._found_for:
            self._found_for = asked
            self._found = self._find(rules)
        given, known = self._rules
        if given is not rules or known.hidden is not self._found:
            self._rules = rules, replace(rules, hidden=self._found)
        return self._rules[1]

    def _find(self, rules: SiteRules) -> Mapping[str, frozenset[NodeName]]:
        if self._shown is None or not rules.scheduling.hides_nodes:
            return {}
        known = self._shown | self._without_gpus
        partitions = rules.partitions.values()
        found = {one.name: _names(one.nodes) - known for one in partitions}
        return {name: frozenset(map(NodeName, names)) for name, names in found.items() if names}


def _names(host_list: str) -> frozenset[str]:
    try:
        return frozenset(expand(host_list))
    except HostlistError:
        return frozenset()
