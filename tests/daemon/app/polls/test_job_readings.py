"""Jobs are read by the configuration in effect; what that rests on says when to read them again."""

from pathlib import Path

import pytest
from tests.daemon.app.watched_site import Site

from roost_slurm.text.versions import parse_version, traits_of
from roostd.app.polls.job_readings import job_reader, settings_of_reads
from roostd.config.config import Config


async def test_jobs_are_read_by_the_configuration_of_now(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    await site.look()
    assert site.watch.leased() == (job_id,)
    site.state.config = Config.model_validate({"mode": "off"})
    list(site.watch.cluster_events())
    assert site.watch.leased() == ()


def test_a_qos_is_found_in_any_case_of_letters(tmp_path: Path) -> None:
    site = Site(tmp_path)
    named = {"sharing": {"qos": ["Together"]}, "preemption": {"qos": ["Scavenge"]}}
    site.state.config = Config.model_validate(named)
    reader = job_reader(site.state, traits_of(parse_version("slurm 24.11.5")), accounts_memory=True)
    assert reader.is_sharing_qos("together")
    assert not reader.is_sharing_qos("normal")
    assert reader.is_preemptible_qos("scavenge")
    assert not reader.is_preemptible_qos("together")


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "enforce"},
        {"accounts": ["physics"]},
        {"qos": ["low"]},
        {"slurm": {"lease_s": 77.0}},
        {"preemption": {"qos": ["low"]}},
    ],
)
def test_readings_rest_on_what_decides_about_jobs(change: dict[str, object]) -> None:
    plain = Config.model_validate({})
    assert settings_of_reads(Config.model_validate({})) == settings_of_reads(plain)
    assert settings_of_reads(Config.model_validate(change)) != settings_of_reads(plain)


def test_readings_do_not_rest_on_how_placements_are_scored() -> None:
    changed = Config.model_validate({"policy": {"model": "none"}})
    assert settings_of_reads(changed) == settings_of_reads(Config.model_validate({}))
