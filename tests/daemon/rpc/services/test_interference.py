"""The Interference service: rows by misprediction, kinds by reports, and what is missing."""

import math
from dataclasses import replace

import pytest
from tests.daemon.rpc.served import Served
from tests.engine.scoring.test_neighbours import FakeInterference

from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.sharing.pairs import Pairs, PairSpeed, SharingConfig
from roost_engine.testing.builders import job
from roost_proto.v1 import interference_pb2 as pb
from roost_proto.v1.interference_pb2_grpc import InterferenceStub
from roostd.rpc.services.interference import response


def learn(served: Served) -> None:
    book = served.state.progress
    book.use_model("onnx:1")
    for _ in range(4):
        book.table.observe("1001 lm", [("1002 foe", "nic")], 0.1, 0.3, math.exp(-0.6), "node")
    book.table.observe("1002 my vit", [], 0.1, 0.3, math.exp(-0.1), "rack")


async def test_what_was_learned_is_answered(served: Served) -> None:
    learn(served)
    stub = InterferenceStub(served.operator_channel())
    found: pb.GetInterferenceResponse = await stub.GetInterference(pb.GetInterferenceRequest())
    assert (found.model, found.decides, found.fault) == ("onnx:1", False, "")
    assert (found.row_count, found.kind_count) == (3, 2)
    assert {row.level for row in found.rows[:2]} == {"nic", "node"}
    pair = next(row for row in found.rows if row.level == "nic")
    assert (pair.user_id, pair.job_name) == (1001, "lm")
    assert (pair.beside_user_id, pair.beside_job_name) == (1002, "foe")
    assert pair.predicted == pytest.approx(0.1)
    assert pair.observed == pytest.approx(0.6)
    assert 0 < pair.residual < 0.5
    assert 0 < pair.error < 0.45
    assert not found.rows[2].HasField("beside_user_id")
    assert [(kind.job_name, kind.report_count) for kind in found.kinds] == [
        ("lm", 4),
        ("my vit", 1),
    ]


def test_the_worst_and_the_best_known_can_be_asked_for(served: Served) -> None:
    learn(served)
    found = response(served.state, 1)
    assert (len(found.rows), len(found.kinds), found.row_count) == (1, 1, 3)


def test_what_activity_suggests_is_marked_and_wide(served: Served) -> None:
    learn(served)
    activity = served.state.activity
    activity.use_model("onnx:1")
    beside = [("1002 foe", "nic")]
    for _ in range(30):
        activity.table.learn("1003 gpt", beside, 0.1, 0.3, 0.4, weight=activity.weight)
    assert not any(row.from_activity for row in response(served.state, 0).rows)  # off
    config = served.state.config
    telemetry = config.telemetry.model_copy(update={"activity_speed": True})
    served.state.config = config.model_copy(update={"telemetry": telemetry})
    found = response(served.state, 0)
    assert (found.row_count, found.kind_count) == (4, 3)
    (row,) = [row for row in found.rows if row.from_activity]
    assert row.job_name == "gpt"
    assert row.report_count == pytest.approx(30)
    assert row.error >= activity.error_floor
    assert found.kinds[-1].from_activity
    assert not found.kinds[0].from_activity


def test_pairs_on_shared_gpus_that_runs_corrected(served: Served) -> None:
    assert not response(served.state, 0).shared_pairs
    pair = PairSpeed("lm", "lm", 0.9, spread=0.02)
    pairs = Pairs(SharingConfig(pairs=(pair,)))
    served.state.engine = Engine(EngineConfig(), Policies(sharing=pairs))
    first = replace(job("1", user_id=1001), model="LM")
    pairs.observe(first, replace(job("2", user_id=1002), model="lm"), 0.5)
    (found,) = response(served.state, 0).shared_pairs
    assert (found.user_id, found.model, found.beside) == (1001, "lm", "lm")
    assert found.measured == pytest.approx(-math.log(0.9))
    assert found.corrected == pytest.approx((-2 * math.log(0.9) - math.log(0.5)) / 3)
    assert (found.run_count, found.is_bad) == (1, True)


def test_nothing_learned_and_faults(served: Served) -> None:
    served.state.progress.fault, served.state.progress.model_fault = "a", "b"
    found = response(served.state, 0)
    assert (found.model, found.fault, len(found.rows)) == ("", "a; b", 0)


def test_a_score_in_service_decides(served: Served) -> None:
    score = NeighbourScore(FakeInterference())
    score.corrections = Corrections([PairCorrection("1 lm", "2 foe", "nic", 0.2)])
    served.state.engine = Engine(EngineConfig(), Policies(score=score))
    found = response(served.state, 0)
    assert (found.model, found.decides, found.correcting_count) == ("fake", True, 1)


class FakeLosses(HeuristicScore):
    """A score of another kind that predicts losses too."""

    correction_count = 3

    def loss_of(self, cluster: object, job_id: object, spec_of: object) -> None:
        return None


def test_whatever_score_predicts_losses_is_read(served: Served) -> None:
    served.state.engine = Engine(EngineConfig(), Policies(score=FakeLosses()))
    found = response(served.state, 0)
    assert (found.model, found.decides, found.correcting_count) == ("heuristic", True, 3)
