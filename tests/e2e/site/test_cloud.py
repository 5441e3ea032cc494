"""A cluster of cloud nodes alone, all of them powered down: jobs wake them as in plain Slurm."""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import SOON_S, site
from tests.e2e.site.test_power import POWER_SAVING, SHOWN_SINCE

from roost_demo.stack import Stack
from roost_slurm.text import commands
from roost_slurm.text.versions import parse_version

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]
CLOUD = ("n1", "n2")


@pytest.fixture
def asleep() -> Iterator[Stack]:
    with site(power_saving=POWER_SAVING, cloud_nodes=CLOUD) as stack:
        slurm = stack.slurm
        for name in CLOUD:
            slurm.run("scontrol", "update", f"nodename={name}", "state=power_down")
        until(lambda: {("suspend", name) for name in CLOUD} <= {*slurm.power_requests()}, "off")
        for name in CLOUD:
            slurm.stop_node(name)
            stack.stop_probe(name)
        if parse_version(slurm.run(*commands.version())) < SHOWN_SINCE:
            until(lambda: not slurm.run("sinfo", "-h", "-N", "-o", "%N").strip(), "all are hidden")
        yield stack


@pytest.mark.timeout(180)
def test_a_job_wakes_nodes_that_this_roostd_has_never_seen(asleep: Stack) -> None:
    """Before, the job was held until `slurm.hand_over_s`, as Slurm says that it has no nodes."""
    asleep.stop_roostd()
    asleep.start_roostd()
    asleep.slurm.submit("-N2", "--gpus-per-node=1")
    wanted = {("resume", name) for name in CLOUD}
    until(lambda: wanted <= {*asleep.slurm.power_requests()}, "both are resumed", SOON_S)
