"""outcomes: what the gate learns from the ends of waits."""

import pytest
from tests.engine.tables import ONE, Tables

from roost_engine.domain.actions import ReleaseToSlurm
from roost_engine.domain.events import JobWithdrawn
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import job, share


@pytest.fixture
def tables() -> Tables:
    return Tables()


def test_the_gate_learns_the_tier_of_a_placement_when_the_job_starts(tables: Tables) -> None:
    tables.queue(job("1"), at_s=5.0)
    tables.place(ONE, 20.0, tier=Tier.RACK)
    assert tables.gate.noted == []
    tables.start(ONE, share("a", 0), at_s=25.0)
    tables.end(ONE, at_s=99.0)
    assert tables.gate.noted == [(ONE, 20.0, Tier.RACK)]


@pytest.mark.parametrize("how", ["ends", "starts elsewhere", "is withdrawn", "is released"])
def test_the_gate_learns_of_a_wait_without_a_placement(tables: Tables, how: str) -> None:
    record = tables.queue(job("1"), at_s=5.0)
    match how:
        case "ends":
            tables.end(ONE, at_s=25.0)
        case "starts elsewhere":
            tables.start(ONE, share("a", 0), at_s=25.0)
        case "is withdrawn":
            tables.table.withdraw(JobWithdrawn(at_s=25.0, job_id=ONE, reason="held"))
        case _:
            tables.table.release_to_slurm(ONE, record, "never fits", 25.0, tables.actions)
            assert isinstance(tables.actions[-1], ReleaseToSlurm)
    assert tables.gate.noted == [(ONE, 20.0, None)]


def test_the_time_before_a_later_begin_time_is_no_wait(tables: Tables) -> None:
    tables.queue(job("1", eligible_s=60.0), at_s=5.0)
    tables.end(ONE, at_s=30.0)
    assert tables.gate.noted == [(ONE, 0.0, None)]
