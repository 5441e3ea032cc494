"""How a job was decided, in the words of operator.proto."""

from collections.abc import Iterator

import numpy as np

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS
from roost_engine.domain.actions import Decision, Exclusions, Place
from roost_proto.v1 import operator_pb2 as pb


def add_decision(message: pb.Explanation, place: Place, now_s: float) -> None:
    """Add to an explanation how the GPUs were chosen; not why the heuristic answered."""
    decision = place.decision.get()
    message.decided_ago_s = now_s - decision.at_s
    message.policy = decision.policy
    message.candidates.extend(_candidates(place))
    message.free_before.extend(
        pb.NodeAllocation(node=share.node, gpu_indices=share.gpu_indices)
        for share in decision.free_before
    )
    message.exclusions.extend(exclusions_of(decision.exclusions))


def exclusions_of(exclusions: Exclusions) -> Iterator[pb.Exclusion]:
    """Yield how many nodes were ruled out for each reason."""
    for reason, count in exclusions:
        yield pb.Exclusion(reason=reason, node_count=count)


def _candidates(place: Place) -> Iterator[pb.Candidate]:
    decision = place.decision.get()
    for rank, candidate in enumerate(decision.candidates):
        yield pb.Candidate(
            nodes=candidate.nodes,
            gpu_indices=candidate.gpu_indices,
            score=float(decision.scores[rank]),
            link_score=int(decision.link_scores[rank]),
            features=dict(zip(COLUMNS, decision.features[rank].tolist(), strict=True)),
            why_not=_why_not(decision, rank) if rank else "",
        )


def _why_not(decision: Decision, rank: int) -> str:
    """Return what lowers a candidate's score the most by the heuristic; a model may see more."""
    gap = float(decision.scores[0] - decision.scores[rank])
    if gap <= 0:
        return "as good; the chosen one comes first in order"
    loss = (decision.features[0] - decision.features[rank]) * HEURISTIC_WEIGHTS
    worst = int(np.argmax(loss))
    if loss[worst] <= 0:
        return f"score {gap:.3g} lower, by the model"
    mine, chosen = decision.features[rank][worst], decision.features[0][worst]
    return f"score {gap:.3g} lower, mostly {COLUMNS[worst]}: {mine:.3g}, chosen {chosen:.3g}"
