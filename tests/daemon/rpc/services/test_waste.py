"""The Waste service: sums in GPU-hours, and what is missing."""

import pytest
from tests.daemon.rpc.served import Served

from roost_engine.domain.model import JobId, NodeName
from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1.waste_pb2_grpc import WasteStub
from roostd.rpc.services.waste import response
from roostd.telemetry.foreign_memory import Foreign, ForeignMemory

DAY_S = 86_400.0


async def test_sums_are_answered_in_gpu_hours(served: Served) -> None:
    tally = served.state.waste
    tally.began_epoch_s = served.clock.at_s - 50.0
    tally.add(0.0, 1001, "held", 7_200.0)
    tally.add(DAY_S, 1001, "idle", 1_800.0)
    tally.add(DAY_S, None, "unreachable", 3_600.0)
    stub = WasteStub(served.operator_channel())
    found: pb.GetWasteResponse = await stub.GetWaste(pb.GetWasteRequest())
    assert [(one.day, one.HasField("user_id")) for one in found.entries] == [
        ("1970-01-02", True),
        ("1970-01-02", False),
        ("1970-01-01", True),
    ]
    assert found.entries[0].idle_gpu_h == pytest.approx(0.5)
    assert found.entries[1].unreachable_gpu_h == pytest.approx(1.0)
    assert found.entries[2].held_gpu_h == pytest.approx(2.0)
    assert found.counted_s == pytest.approx(50.0)


async def test_the_newest_days_can_be_asked_for(served: Served) -> None:
    for day in range(3):
        served.state.waste.add(day * DAY_S, 1, "held", 1.0)
    served.state.waste.fault = "waste.json: damaged"
    found = response(served.state, 2)
    assert [one.day for one in found.entries] == ["1970-01-03", "1970-01-02"]
    assert (found.counted_s, found.fault) == (0.0, "waste.json: damaged")


def test_memory_of_no_job_is_listed_and_a_user_without_a_role_sees_its_own(served: Served) -> None:
    state, now_s = served.state, served.clock.at_s
    known = ForeignMemory(5 << 30, 1001, 9)
    state.foreign[NodeName("n2"), 1] = Foreign(known, JobId("12"), now_s - 600.0)
    state.foreign[NodeName("n1"), 3] = Foreign(ForeignMemory(3 << 30), None, now_s - 400.0)
    state.waste.add(0.0, None, "foreign", 3_600.0)

    found = response(state, 0)

    assert found.entries[0].foreign_gpu_h == pytest.approx(1.0)
    assert list(found.foreign) == [
        pb.ForeignMemory(node="n1", gpu_index=3, used_bytes=3 << 30, seen_for_s=400.0),
        pb.ForeignMemory(
            node="n2",
            gpu_index=1,
            used_bytes=5 << 30,
            held_by="12",
            user_id=1001,
            slurm_job_id=9,
            seen_for_s=600.0,
        ),
    ]
    assert list(response(state, 0, only_owner=1001).foreign) == [found.foreign[1]]
    assert not response(state, 0, only_owner=1002).foreign


def test_a_user_without_a_role_sees_its_own_sums(served: Served) -> None:
    tally = served.state.waste
    tally.add(0.0, 1001, "held", 1.0)
    tally.add(0.0, 1002, "idle", 1.0)
    tally.add(0.0, None, "half_free", 1.0)
    found = response(served.state, 0, only_owner=1001)
    assert [(one.HasField("user_id"), one.user_id) for one in found.entries] == [(True, 1001)]
    assert len(response(served.state, 0).entries) == 3
