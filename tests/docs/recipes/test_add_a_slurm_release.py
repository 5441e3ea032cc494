"""docs/recipes/add-what-a-slurm-release-does-differently.md followed with a made-up release."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.running import config, running
from tests.docs.recipes.recipe import ROOT, modules_naming
from tests.slurm_glue.recorded import RELEASES

from roost_engine.testing import builders
from roost_slurm.text import versions
from roost_slurm.text.versions import SlurmVersion, traits_of
from roostd.testing.slurm_stand_in import SlurmStandIn

NEWEST = versions.TABLE[-1][1]
MADE_UP = replace(NEWEST, can_untype=False, requeue_pause_s=7.5)
FIXTURES = ROOT / "tests" / "slurm_glue" / "fixtures"


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> SlurmVersion:
    """Release 40.05, which keeps types for good and needs a long pause after a requeue."""
    monkeypatch.setattr(versions, "TABLE", (*versions.TABLE, ((40, 5), MADE_UP)))
    return SlurmVersion(40, 5, 1)


def test_a_row_holds_from_its_release_on_and_for_no_earlier_one(release: SlurmVersion) -> None:
    assert traits_of(release) == MADE_UP
    assert traits_of(SlurmVersion(41, 11)) == MADE_UP
    assert traits_of(SlurmVersion(39, 11, 9)) == NEWEST


def test_a_release_that_no_row_knows_is_like_the_newest_known() -> None:
    assert traits_of(SlurmVersion(99, 11)) == NEWEST


@pytest.mark.parametrize(("year", "pause_s"), [(40, 7.5), (39, NEWEST.requeue_pause_s)])
async def test_the_daemon_follows_the_row_of_the_release_that_it_meets(
    release: SlurmVersion, year: int, pause_s: float, tmp_path: Path
) -> None:
    slurm = SlurmStandIn([builders.node("n1")], version=SlurmVersion(year, 5, 1))

    async with running(slurm, config(tmp_path)) as daemon:
        state = daemon.daemon.state
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        stopped_s = state.clock.now_s()
        slurm.stop(job_id)
        await daemon.until(lambda: job_id in state.settle_until_s, "a pause after the requeue")
        seen_s = state.clock.now_s()

        assert state.slurm_version == f"{year}.05.1"
        assert stopped_s + pause_s <= state.settle_until_s[job_id] <= seen_s + pause_s


# -- that the recipe is true of the releases that are known ------------------------------------


def test_every_recording_is_listed_and_whole() -> None:
    folders = sorted(path for path in FIXTURES.iterdir() if re.fullmatch(r"[\d.]+", path.name))
    assert [folder.name for folder in folders] == list(RELEASES)
    recorded = {
        file
        for script in ("record.py", "record_site.py")
        for file in re.findall(r'"(\w+\.txt)":', (FIXTURES / script).read_text())
    }
    assert recorded
    assert {frozenset(file.name for file in folder.iterdir()) for folder in folders} == {
        frozenset(recorded)
    }


def test_the_page_has_a_column_for_each_release() -> None:
    page = (ROOT / "docs" / "slurm.md").read_text(encoding="utf-8")
    head = page.partition("## Slurm releases\n\n")[2].partition("\n")[0]
    assert tuple(re.findall(r"\d\d\.\d\d", head)) == RELEASES


def test_only_the_readers_of_slurm_ask_for_traits() -> None:
    assert modules_naming(r"\btraits_of\(") == {
        "slurm_glue/roost_slurm/text/versions.py",
        "slurm_glue/roost_slurm/guards/orphaned_pins.py",
        "slurm_glue/roost_slurm/guards/seat_guards.py",
        "daemon/roostd/app/polls/slurm_watch.py",
        "daemon/roostd/slurm/slurm_cli.py",
        "daemon/roostd/testing/slurm_stand_in.py",
    }
