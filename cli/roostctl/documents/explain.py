"""What `roostctl explain ID --json` prints."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.jobs import JobDocument, TurnDocument, job_document, turn_document
from roostctl.documents.slots import SlotDocument, slot_documents
from roostctl.documents.values import FLOAT32_DIGITS, finite, real


class CandidateDocument(TypedDict):
    """One scored place; features by name."""

    nodes: list[str]
    gpu_indices: list[int]
    score: float | None
    link_score: int
    features: dict[str, float | None]
    why_not: str | None


class ExclusionDocument(TypedDict):
    """How many nodes were ruled out for one reason."""

    reason: str
    node_count: int


class CommentDocument(TypedDict):
    """What the user states in the job's comment."""

    model: str | None
    checkpoint_s: float | None
    problems: list[str]


class SensitivityDocument(TypedDict):
    """What the delay gate believes of a job."""

    timer: str
    rack_frac: float | None
    across_frac: float | None
    source: str
    confidence_frac: float | None
    run_count: int


class AchievedDocument(TypedDict):
    """How fast a running job of several GPUs is believed to go, and how busy its links are."""

    speed_frac: float | None
    source: str | None
    confidence_frac: float | None
    nvlink_frac: float | None
    pcie_frac: float | None
    nic_frac: float | None


class ExpectedRunDocument(TypedDict):
    """How long a job may still run, by the jobs like it."""

    gpu_s: float | None
    median_s: float | None
    low_s: float | None
    high_s: float | None
    similar_count: float | None


class ExplainDocument(TypedDict):
    """`roostctl explain ID --json`."""

    schema: str
    job: JobDocument
    decided_ago_s: float | None
    policy: str | None
    fallback_reason: str | None
    neighbour: str | None
    candidates: list[CandidateDocument]
    exclusions: list[ExclusionDocument]
    comment: CommentDocument | None
    sensitivity: SensitivityDocument | None
    achieved: AchievedDocument | None
    slots: list[SlotDocument]
    stack: str | None
    turn: TurnDocument | None
    expected_run: ExpectedRunDocument | None
    is_from_journal: bool
    least_node_count: int | None
    most_node_count: int | None


def explain_document(explanation: pb.Explanation) -> ExplainDocument:
    """Schema roost.explain/1."""
    return {
        "schema": "roost.explain/1",
        "job": job_document(explanation.job),
        "decided_ago_s": finite(explanation.decided_ago_s) if explanation.policy else None,
        "policy": explanation.policy or None,
        "fallback_reason": explanation.fallback_reason or None,
        "neighbour": explanation.neighbour or None,
        "candidates": [
            {
                "nodes": list(candidate.nodes),
                "gpu_indices": list(candidate.gpu_indices),
                "score": finite(candidate.score, FLOAT32_DIGITS),
                "link_score": candidate.link_score,
                "features": {
                    name: finite(value, FLOAT32_DIGITS)
                    for name, value in sorted(candidate.features.items())
                },
                "why_not": candidate.why_not or None,
            }
            for candidate in explanation.candidates
        ],
        "exclusions": [
            {"reason": entry.reason, "node_count": entry.node_count}
            for entry in explanation.exclusions
        ],
        "comment": _comment(explanation) if explanation.HasField("comment") else None,
        "sensitivity": _sensitivity(explanation) if explanation.HasField("sensitivity") else None,
        "achieved": _achieved(explanation) if explanation.HasField("achieved") else None,
        "slots": slot_documents(explanation.slots),
        "stack": explanation.stack or None,
        "turn": turn_document(explanation.turn) if explanation.HasField("turn") else None,
        "expected_run": (
            _expected_run(explanation.expected_run)
            if explanation.HasField("expected_run")
            else None
        ),
        "is_from_journal": explanation.is_from_journal,
        "least_node_count": explanation.least_node_count or None,
        "most_node_count": explanation.most_node_count or None,
    }


def _expected_run(run: pb.ExpectedRun) -> ExpectedRunDocument:
    return {
        "gpu_s": finite(run.gpu_s),
        "median_s": finite(run.median_s),
        "low_s": finite(run.low_s),
        "high_s": finite(run.high_s),
        "similar_count": finite(run.similar_count),
    }


def _comment(explanation: pb.Explanation) -> CommentDocument:
    said = explanation.comment
    return {
        "model": said.model or None,
        "checkpoint_s": real(said, "checkpoint_s"),
        "problems": list(said.problems),
    }


def _sensitivity(explanation: pb.Explanation) -> SensitivityDocument:
    believed = explanation.sensitivity
    return {
        "timer": believed.timer,
        "rack_frac": finite(believed.rack_frac, FLOAT32_DIGITS),
        "across_frac": finite(believed.across_frac, FLOAT32_DIGITS),
        "source": believed.source,
        "confidence_frac": finite(believed.confidence_frac, FLOAT32_DIGITS),
        "run_count": believed.run_count,
    }


def _achieved(explanation: pb.Explanation) -> AchievedDocument:
    achieved = explanation.achieved
    is_believed = achieved.HasField("speed_frac")
    confidence_frac = finite(achieved.confidence_frac, FLOAT32_DIGITS)
    return {
        "speed_frac": real(achieved, "speed_frac"),
        "source": achieved.source or None,
        "confidence_frac": confidence_frac if is_believed else None,
        "nvlink_frac": real(achieved, "nvlink_frac"),
        "pcie_frac": real(achieved, "pcie_frac"),
        "nic_frac": real(achieved, "nic_frac"),
    }
