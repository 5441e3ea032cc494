"""messages.explanations: comments, candidates, and why the heuristic answered."""

from dataclasses import replace

import pytest
from tests.daemon.rpc.messages.told_jobs import NINE, ONE

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import ForeignMemorySeen, JobQueued, NodeSeen
from roost_engine.domain.model import JobSpec, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.pairs import Pairs, PairSpeed, SharingConfig
from roost_engine.testing.builders import job, node, shape
from roostd.rpc.messages import explanations, jobs
from roostd.rpc.messages.outlook import outlooks
from roostd.slurm.comment import JobComment
from roostd.state import DaemonState


def test_a_job_without_gpus_is_explained_but_not_listed(state: DaemonState) -> None:
    state.unmanaged_reasons = {NINE: "asks for no GPUs"}
    assert explanations.explanation(state, NINE).job.reason == "asks for no GPUs"
    assert [one.job_id for one in jobs.jobs(state, True, dict(outlooks(state)))] == ["1"]


def test_a_job_that_neither_slurm_nor_the_engine_has_is_unknown(state: DaemonState) -> None:
    with pytest.raises(UnknownJob):
        explanations.explanation(state, NINE)


def test_explain_tells_what_a_comment_said(state: DaemonState) -> None:
    assert not explanations.explanation(state, ONE).HasField("comment")
    state.comments[ONE] = JobComment("bert", 600.0, ("key lr is unknown",))
    told = explanations.explanation(state, ONE).comment
    assert (told.model, told.checkpoint_s) == ("bert", 600.0)
    assert list(told.problems) == ["key lr is unknown"]


def test_explain_says_that_a_job_counts_with_more_memory_than_it_states(
    state: DaemonState,
) -> None:
    state.engine = Engine(EngineConfig(), Policies(sharing=Pairs(SharingConfig())))
    spec = replace(job("1", gpus=1), shares_gpus=True, gpu_memory_bytes=18 << 30)
    state.engine.step(JobQueued(at_s=100.0, job=spec))
    state.comments[ONE] = JobComment(shares_gpus=True, gpu_memory_bytes=5 << 30)
    (problem,) = explanations.explanation(state, ONE).comment.problems
    assert problem == (
        "memory: it states 5 GiB of each GPU, and runs of this user and name have used more:"
        " 18 GiB count"
    )
    state.comments[ONE] = JobComment(shares_gpus=True, gpu_memory_bytes=18 << 30)
    assert not explanations.explanation(state, ONE).comment.problems


SHARES = replace(job("1", gpus=1), shares_gpus=True, gpu_memory_bytes=9 << 30, model="bert")


@pytest.mark.parametrize(
    ("spec", "begins", "cure"),
    [
        (SHARES, "", ""),
        (replace(SHARES, shares_gpus=False, gpu_memory_bytes=0), "", ""),
        (replace(SHARES, gpu_memory_bytes=0), "what it needs of a GPU's memory", "roost:memory="),
        (replace(SHARES, gpu_memory_bytes=0), "what it needs", "3 runs of this user and name"),
        (replace(SHARES, model=""), "it names no model", "cure: roost:model=NAME"),
        (replace(SHARES, model="gpt"), "the table of pairs has no model gpt", "cure: a name of"),
        (replace(SHARES, shapes=job("1", shape(2, 2)).shapes), "it asks for several nodes", ""),
    ],
)
def test_explain_says_why_a_job_that_opted_in_shares_nothing(
    state: DaemonState, spec: JobSpec, begins: str, cure: str
) -> None:
    pairs = (PairSpeed("BERT", "ncf", 0.9), PairSpeed("ncf", "BERT", 0.9))
    state.engine = Engine(EngineConfig(), Policies(sharing=Pairs(SharingConfig(pairs=pairs))))
    state.engine.step(NodeSeen(at_s=100.0, node=node("a", gpu_count=2)))
    state.engine.step(JobQueued(at_s=100.0, job=replace(spec, job_id=ONE)))
    told = explanations.explanation(state, ONE).neighbour
    assert told.startswith(f"shares no GPU: {begins}" if begins else "")
    assert bool(told) is bool(begins)
    assert cure in told


def test_explain_counts_the_runs_whose_memory_is_known(state: DaemonState) -> None:
    state.engine = Engine(EngineConfig(), Policies(sharing=Pairs(SharingConfig())))
    spec = replace(SHARES, gpu_memory_bytes=0, name="train")
    state.engine.step(JobQueued(at_s=100.0, job=spec))
    state.gpu_memory.note_run(spec.user_id, "train", 5 << 30)
    assert explanations.explanation(state, ONE).neighbour.endswith("of which 1 was seen")


def test_explain_names_memory_of_no_job_on_the_gpus_that_a_job_got(state: DaemonState) -> None:
    state.engine = Engine(EngineConfig(), Policies())
    name = NodeName("a")
    for event in (
        NodeSeen(at_s=100.0, node=node("a", gpu_count=2)),
        ForeignMemorySeen(at_s=100.0, name=name, gpu_index=0, used_bytes=41 << 30),
        JobQueued(at_s=100.0, job=job("1", gpus=1)),
        JobQueued(at_s=100.0, job=job("9", gpus=1)),
    ):
        state.engine.step(event)
    first, second = (explanations.explanation(state, each) for each in (ONE, NINE))
    assert (list(first.candidates[0].gpu_indices), first.neighbour) == ([1], "")
    (passed_over,) = first.exclusions
    assert passed_over.node_count == 1
    assert passed_over.reason.endswith("processes of no job use their memory")
    assert second.neighbour == (
        "processes of no job use 41 GiB of GPU 0 of a, and no other place was free"
    )


def test_every_candidate_but_the_chosen_one_tells_why_not(state: DaemonState) -> None:
    chosen, *others = explanations.explanation(state, ONE).candidates
    assert chosen.why_not == ""
    assert others
    for other in others:
        assert other.score <= chosen.score
        if other.score == chosen.score:
            assert other.why_not == "as good; the chosen one comes first in order"
        else:
            assert other.why_not.startswith("score ")


def test_a_model_that_did_not_load_is_the_reason_why_the_heuristic_answered(
    state: DaemonState,
) -> None:
    assert explanations.explanation(state, ONE).fallback_reason == ""
    state.policy_fault = "/m.onnx: no such file"
    assert explanations.explanation(state, ONE).fallback_reason == "/m.onnx: no such file"


def test_a_job_whose_number_of_nodes_is_open_says_how_many_it_may_get(state: DaemonState) -> None:
    state.engine = Engine(EngineConfig(), Policies())
    wide = (shape(4), shape(2, node_count=2))
    for one in (job("1", gpus=4), replace(job("9", gpus=4), shapes=wide)):
        state.engine.step(JobQueued(at_s=100.0, job=one))
    found = [explanations.explanation(state, job_id) for job_id in (ONE, NINE)]
    assert [(one.least_node_count, one.most_node_count) for one in found] == [(0, 0), (1, 2)]
