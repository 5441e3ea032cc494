from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulator.measured import pairs_file

from roost_engine.domain.errors import PolicyError
from roost_sim.catalogue.compositions import PolicyNameError, find_policy
from roost_sim.catalogue.sharings import SHARINGS, Numbers, parse_sharing, sharing_of
from roost_sim.clusters.presets import preset
from roost_sim.errors import SimError
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.worlds.sharing.measured_pairs import read_pairs
from roost_sim.worlds.sharing.sharing_spec import SharingSpec
from roost_sim.worlds.world_spec import Speed, WorldSpec


def test_a_rule_takes_a_limit_and_a_certainty() -> None:
    assert parse_sharing("measured")[1] == Numbers(0.15, 0.8)
    assert parse_sharing("lif:0.4")[1] == Numbers(0.4, 0.8)
    assert parse_sharing("measured:0.4:0.95")[1] == Numbers(0.4, 0.95)
    assert find_policy("roost@lif:0.4").order == find_policy("roost").order
    assert "after Harmony" in find_policy("roost@lif:0.4").source


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("mesured", "did you mean measured"),
        ("measured:x", "want numbers"),
        ("measured:0", "want a limit"),
        ("measured:0.1:0.2", "a certainty from 0.5"),
        ("measured:0.1:0.9:3", "want a limit"),
    ],
)
def test_a_rule_that_does_not_exist_is_refused(text: str, what: str) -> None:
    with pytest.raises(PolicyError, match=what):
        parse_sharing(text)
    with pytest.raises(PolicyNameError, match=what):
        find_policy(f"fifo@{text}")


def test_without_pairs_no_job_can_share() -> None:
    with pytest.raises(SimError, match="name their file with --pairs"):
        sharing_of("blind", PolicyInformation(work_s={}, seed=0))


@pytest.mark.parametrize("rule", SHARINGS)
def test_every_rule_runs_and_only_shares_where_jobs_opt_in(tmp_path: Path, rule: str) -> None:
    pairs, cluster = read_pairs(pairs_file(tmp_path), "p100"), preset("small")
    spec = SharingSpec(pairs=pairs, digest=pairs.digest, known_frac=1.0)
    run = Run(
        trace=generate(HELIOS, 150, 3, max_gpu_count=8).at_load(40.0, cluster.gpu_count),
        cluster=cluster,
        policy=find_policy(f"fifo@{rule}:0.6"),
        world=WorldSpec(speed=Speed.TRACE, sharing=spec),
    )
    found = simulate(run).metrics
    assert found.sharing is not None
    # Lucid's own cuts call every kind of this table jumbo.
    assert (found.sharing.jobs > 0) is (rule != "lucid")
    alone = simulate(replace(run, world=replace(run.world, sharing=replace(spec, opt_in_frac=0.0))))
    assert alone.metrics.sharing is not None
    assert alone.metrics.sharing.jobs == 0
    none = simulate(replace(run, policy=find_policy("fifo")))
    assert none.metrics.sharing is None
    assert alone.metrics.avg_jct_s == none.metrics.avg_jct_s


def test_pairs_of_a_wrong_table_are_separated(tmp_path: Path) -> None:
    pairs, cluster = read_pairs(pairs_file(tmp_path), "p100"), preset("small")
    spec = SharingSpec(pairs=pairs, digest=pairs.digest, known_frac=1.0, opt_in_frac=1.0, noise=1.0)
    run = Run(
        trace=generate(HELIOS, 150, 3, max_gpu_count=8).at_load(40.0, cluster.gpu_count),
        cluster=cluster,
        policy=find_policy("fifo@measured:0.25:0.5"),
        world=WorldSpec(speed=Speed.TRACE, sharing=spec),
    )
    assert not simulate(run).metrics.preemptions
    separating = replace(run, policy=find_policy("fifo@measured:0.25:0.5:separate"))
    assert separating.policy.asks_speed
    assert simulate(separating).metrics.preemptions


def test_a_rule_that_learns_nothing_separates_nothing() -> None:
    assert parse_sharing("measured:0.3:separate")[1] == Numbers(0.3, 0.8, separates=True)
    with pytest.raises(PolicyError, match="learns from no speeds"):
        parse_sharing("blind:separate")
