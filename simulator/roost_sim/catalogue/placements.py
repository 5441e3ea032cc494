"""Placement rules by name: which GPUs a job takes, and whether it waits for better ones.

Definitions, sources and differences to published simulators: docs/simulator/placements.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from roost_engine.domain.model import JobId
from roost_engine.placement.stock_gpus import choose_22_05, choose_since_24_05
from roost_engine.plugins.stacks import (
    BUILTIN_MODEL,
    GRAPH_MODEL,
    NEIGHBOURS_MODEL,
    NO_MODEL,
    PlacementKind,
    Stack,
)
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.policies.protocols import CandidatePolicy
from roost_sim.catalogue.placement_part import PlacementPart, of_roostd, scored_by
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.placement.best_fit import BestFit
from roost_sim.policies.placement.first_domain import FirstDomain
from roost_sim.policies.placement.hived import BuddyCells
from roost_sim.policies.placement.interference import LeastInterference
from roost_sim.policies.placement.knn import ClosestGpus
from roost_sim.policies.placement.least_workload import LeastWorkload
from roost_sim.policies.placement.scatter import Scattered, ScatterRule
from roost_sim.policies.placement.scatter_rules import (
    Alignment,
    FirstFit,
    LoadBalance,
    MachineOrRandom,
    RandomGpus,
    TreeLoadBalance,
)
from roost_sim.policies.placement.skew import SkewRule, is_skewed
from roost_sim.policies.placement.stock_placement import (
    GpuRule,
    NodeRule,
    StockPlacement,
    consecutive_nodes,
    leaf_switches,
)
from roost_sim.policies.placement.whole_pieces import NodeCost, WholeFreeNode, WholePieces
from roost_sim.traces.shapes import ShapeRule, every_even_shape, tightest_shapes
from roost_sim.worlds.fidelity import Regime


def _only(kind: PlacementKind, rule: str, model: str = NO_MODEL) -> PlacementPart:
    """Take a rule under which jobs wait for tight shapes without end, for dated stacks."""
    source = f"as {rule}; waits for the tightest shape without end"
    return replace(of_roostd(kind, source, every_even_shape, model), wider_after_s=inf)


def _graph(source: str, shapes: ShapeRule, agents: int = 1) -> PlacementPart:
    return of_roostd(PlacementKind.WIDE, source, shapes, GRAPH_MODEL, agents)


def placement_part(name: str) -> PlacementPart:
    """Return the placement of a name; `NAME:FILE` has the model of a file score its places.

    Raises:
        KeyError: no placement has this name.
    """
    if not has_own_model(name):
        return PLACEMENTS[name]
    rule, _, file = name.partition(":")
    return scored_by(PLACEMENTS[rule], file)


def has_own_model(name: str) -> bool:
    """Return whether a name is `NAME:FILE`, with the name of a rule that roostd has too."""
    rule, _, file = name.partition(":")
    return bool(file) and rule in PLACEMENTS and PLACEMENTS[rule].kind is not None


def _scattered(rule: Callable[[PolicyInformation], ScatterRule], source: str) -> PlacementPart:
    return PlacementPart(source=source, candidates=lambda information: Scattered(rule(information)))


def _stock(nodes: NodeRule, gpus: GpuRule, source: str) -> PlacementPart:
    return PlacementPart(
        source=source,
        shapes=tightest_shapes,
        candidates=lambda information: StockPlacement(nodes, gpus),
    )


def _whole(rule: Callable[[PolicyInformation], NodeCost], source: str) -> PlacementPart:
    return PlacementPart(
        source=source,
        shapes=tightest_shapes,
        candidates=lambda information: WholePieces(rule(information)),
    )


def _skew(
    others: CandidatePolicy, source: str, must_wait: Callable[[str], bool] = is_skewed
) -> PlacementPart:
    def rule(information: PolicyInformation) -> SkewRule:
        def is_bound(job_id: JobId) -> bool:
            profile = information.profile_of.get(job_id)
            return profile is not None and must_wait(profile.family)

        return SkewRule(is_bound, others)

    return PlacementPart(
        source=source,
        candidates=rule,
        shapes_by_job=lambda information: rule(information).shapes,
    )


def _least_interference(information: PolicyInformation) -> LeastInterference:
    """Make the rule with duties from the profiles; a job without a profile has duty 1."""
    tiers, profile_of = information.tiers, information.profile_of

    def duty_frac(job_id: JobId, gpu_count: int, node_count: int) -> float:
        profile = profile_of.get(job_id)
        if profile is None or tiers is None:
            return 1.0
        one_node, one_rack, _ = tiers.efficiencies(profile, gpu_count)
        return 1.0 - (one_node if node_count == 1 else one_rack)

    return LeastInterference(duty_frac)


def _lwf(apart_gpus: int) -> PlacementPart:
    return PlacementPart(
        source=f"LWF-{apart_gpus} of Wang et al., arXiv 2002.10105: least workload first, jobs of "
        f"more than {apart_gpus} GPU{'s' if apart_gpus > 1 else ''} together",
        shapes=tightest_shapes,
        candidates=lambda information: LeastWorkload(information.work_s, apart_gpus),
        regime=Regime.ORACLE,
    )


_TOPDRL = "Ayadi et al., JPDC 2025, by the code of Proximity-DRL"
_SKEW = (
    "Gu et al., Tiresias, NSDI 2019: models whose largest tensor is more than half of them wait "
    "for the tightest shape"
)
_DALLY = "Sharma et al., arXiv 2401.16492, as coded"
DALLY_UNBOUND = frozenset({"resnet50", "resnet18", "bert"})
_HARMONY = "Bao et al., Harmony, INFOCOM 2019"
_TETRIS = "Grandl et al., Tetris, SIGCOMM 2014"
AGENT_COUNTS = (4, 16)
_PARTS = "in the tightest shape, for which it waits; for each part, of the nodes that hold it"
_SLURM_NODES = "the best-fitting run of consecutive nodes"

PLACEMENTS: Mapping[str, PlacementPart] = {
    "consolidation": of_roostd(
        PlacementKind.CONSOLIDATION,
        "Roost's heuristic on the tightest shape with capacity; never waits for a tighter",
        every_even_shape,
    ),
    "onnx-score": of_roostd(
        PlacementKind.CONSOLIDATION,
        "as consolidation, scored by the ONNX model that ships with Roost",
        every_even_shape,
        BUILTIN_MODEL,
    ),
    "wide": of_roostd(
        PlacementKind.WIDE,
        "as consolidation, with more nodes to choose from",
        every_even_shape,
    ),
    "wide-strict": of_roostd(
        PlacementKind.WIDE,
        "as strict, with more nodes to choose from",
        tightest_shapes,
    ),
    "graph": _graph(
        "as wide, scored by the graph model that ships with Roost; after Zhao and Wu, TNSM 2022",
        every_even_shape,
    ),
    "graph-strict": _graph("as graph, on the tightest shape; waits for it", tightest_shapes),
    **{
        f"graph-strict-{agents}": _graph(
            f"as graph-strict, by {agents} agents with a part of the cluster each",
            tightest_shapes,
            agents,
        )
        for agents in AGENT_COUNTS
    },
    **{
        f"consolidation-{agents}": of_roostd(
            PlacementKind.CONSOLIDATION,
            f"as consolidation, by {agents} agents with a part of the cluster each",
            every_even_shape,
            agents=agents,
        )
        for agents in AGENT_COUNTS
    },
    **{
        f"consolidation-{agents}-alone": replace(
            of_roostd(
                PlacementKind.CONSOLIDATION,
                f"as consolidation-{agents}, and no agent gives a job to another one",
                every_even_shape,
                agents=agents,
            ),
            forwards=False,
        )
        for agents in AGENT_COUNTS
    },
    "neighbours": of_roostd(
        PlacementKind.WIDE,
        "as wide, less what neighbours are predicted to cost the job and it them",
        every_even_shape,
        NEIGHBOURS_MODEL,
    ),
    "strict": of_roostd(
        PlacementKind.STRICT,
        "Roost's heuristic on the tightest shape; waits for it",
        tightest_shapes,
    ),
    "common-shapes": of_roostd(
        PlacementKind.COMMON_SHAPES,
        "Roost's heuristic on the tightest shape that nodes with half of the GPUs could hold; "
        "waits 30 s for it; the nodes with the fewest GPUs first",
        every_even_shape,
    ),
    "onnx-common-shapes": of_roostd(
        PlacementKind.COMMON_SHAPES,
        "as common-shapes, scored by the ONNX model that ships with Roost",
        every_even_shape,
        BUILTIN_MODEL,
    ),
    "tight-gangs": of_roostd(
        PlacementKind.TIGHT_GANGS,
        "as consolidation; a job that no node could hold waits 30 s for its tightest shape",
        every_even_shape,
    ),
    "best-fit": _scattered(
        lambda information: BestFit(),
        "consolidation of the literature: the tightest node, else fewest nodes of the tightest "
        "rack, else fewest racks, unequal parts allowed; never waits",
    ),
    "random": _scattered(
        lambda information: RandomGpus(information.seed), "any free GPUs, every set equally likely"
    ),
    "first-fit": _scattered(
        lambda information: FirstFit(), "the first free GPUs in the order of nodes and indices"
    ),
    "load-balance": _scattered(
        lambda information: LoadBalance(),
        f"GPU by GPU, the node with the most free ones; as in {_HARMONY}",
    ),
    "load-balance-tree": _scattered(
        lambda information: TreeLoadBalance(),
        f"GPU by GPU, the rack with the most free ones, there the node; {_TOPDRL}",
    ),
    "knn": _scattered(lambda information: ClosestGpus(), f"closest GPUs to a seed; {_TOPDRL}"),
    "skew": _skew(ShapeByShape(), f"{_SKEW}, the others are consolidated but wait for nothing"),
    "skew-scattered": _skew(Scattered(LoadBalance()), f"{_SKEW}, the others are load-balanced"),
    "skew-dally": _skew(
        Scattered(BestFit()),
        f"{_DALLY}, its Tiresias: all models but ResNet-50, ResNet-18 and BERT wait for the "
        "tightest shape, these go where they fit best",
        lambda family: family not in DALLY_UNBOUND,
    ),
    "machine-or-random": _scattered(
        lambda information: MachineOrRandom(RandomGpus(information.seed)),
        f"{_DALLY}, its Gandiva: the first node that holds the whole job, else any free GPUs",
    ),
    "tetris": _whole(
        lambda information: WholeFreeNode(),
        f"{_PARTS}, the node with the largest dot product of free and asked; {_TETRIS}",
    ),
    "tetris-scattered": _scattered(
        lambda information: Alignment(),
        f"GPU by GPU, the node with the largest dot product of free and asked; {_TETRIS}",
    ),
    "lif": _whole(
        _least_interference,
        f"{_PARTS}, least interference by a linear model; {_HARMONY}; features are ours",
    ),
    "lif-scattered": _scattered(
        _least_interference,
        f"GPU by GPU, least interference by a linear model; {_HARMONY}; features are ours",
    ),
    "lwf-1": _lwf(1),
    "lwf-4": _lwf(4),
    "hived": _scattered(
        lambda information: BuddyCells(),
        "Zhao et al., HiveD, OSDI 2020: pods in buddy cells, fullest nodes first; waits for them",
    ),
    "first-found": _scattered(
        lambda information: FirstDomain(),
        "Sharma et al., Dally, arXiv 2401.16492, as coded: the first slot, node or rack that fits",
    ),
    "slurm-22.05": _stock(
        consecutive_nodes, choose_22_05, f"plain Slurm: {_SLURM_NODES}, GPUs as 22.05 takes them"
    ),
    "slurm-24.05": _stock(
        consecutive_nodes,
        choose_since_24_05,
        f"plain Slurm: {_SLURM_NODES}, GPUs as 24.05 and later take them",
    ),
    "slurm-switches": _stock(
        leaf_switches,
        choose_since_24_05,
        "plain Slurm with topology/tree: the best-fitting leaf switch, GPUs as 24.05 and later",
    ),
    "shapes-only": _only(PlacementKind.COMMON_SHAPES, "common-shapes"),
    "onnx-shapes-only": _only(PlacementKind.COMMON_SHAPES, "onnx-common-shapes", BUILTIN_MODEL),
    "tight-gangs-only": _only(PlacementKind.TIGHT_GANGS, "tight-gangs"),
}


def placement_of(stack: Stack) -> str:
    """Return the name of the placement rule of a stack, with its scores.

    roostd has the two apart, as `placement.kind` and `policy.model`.
    """
    wanted = stack.placement, stack.model
    return next(name for name, part in PLACEMENTS.items() if (part.kind, part.model) == wanted)
