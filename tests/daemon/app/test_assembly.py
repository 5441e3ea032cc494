"""The daemon's parts know each other."""

from pathlib import Path

from tests.daemon.running import config, running

from roost_engine.testing.builders import node
from roostd.testing.slurm_stand_in import SlurmStandIn


async def test_a_new_engine_gets_the_world_and_what_was_measured_is_stored(tmp_path: Path) -> None:
    slurm = SlurmStandIn([node("n1")])
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        parts, before = daemon.daemon.parts, daemon.daemon.state.engine
        parts.replace_engine()
        assert parts.state.engine is not before
        await daemon.until_running(job_id)
        parts.poll_meters()
        parts.store()
    assert (tmp_path / "state" / "waste.json").exists()
