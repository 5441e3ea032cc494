"""A Slurm with second seats, and roostd that uses them: GPUs are device files of this machine."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from roost_demo.stack import NodeKind, Stack
from roost_slurm.hooks import hook_seats
from roost_slurm.site import gres
from roost_slurm.site.inventory import Gpu, NodeGpus
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.site_plan import AccountingPlan

NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="bridges8"))
PAIRS = """model,beside,speed,spread
good,good,0.95,0.02
bad,good,0.6,0.02
good,bad,0.95,0.02
wrong,good,0.95,0.02
good,wrong,0.95,0.02
"""
OPTED_IN = "--comment=roost:share=yes,memory=16G,model=good"


@contextmanager
def seats_site(
    folder: Path,
    *,
    share_qos: tuple[str, ...] = (),
    settings: Mapping[str, object] | None = None,
    accounting: AccountingPlan | None = None,
) -> Iterator[Stack]:
    """Run Slurm with seats, and roostd with a table of pairs; GPUs count from 0 on each node.

    Args:
        folder: for device files and the table; slurmctld, another user, reads it.
        share_qos: the QoS whose jobs opt in.
        settings: more of roostd's configuration, by section.
        accounting: a slurmdbd.
    """
    (folder / "pairs.csv").write_text(PAIRS)
    (folder / "seats").mkdir()
    for i in range(8):
        os.mknod(folder / f"gpu{i}", 0o666 | 0o020000, os.makedev(240, i))
        os.mknod(folder / "seats" / f"seat{i}", 0o666 | 0o020000, os.makedev(241, i))
    folder.chmod(0o755)
    (folder / "seats").chmod(0o755)
    sharing = {"enabled": True, "pairs": str(folder / "pairs.csv"), "qos": list(share_qos)}
    sections = {
        "sharing": sharing | {"separate": True, "separate_after_s": 1.0},
        "partitions": {"main": {"mode": "enforce", "preemption": True}},
    }
    plan = _Plan(folder, accounting)
    every = sections | dict(settings or {})
    with Stack(NODES, settings=every, amend_plan=plan.with_seats) as stack:
        yield stack


class _Plan:
    """Adds the seats to a plan, as `roost-slurm config --seats` writes them."""

    def __init__(self, folder: Path, accounting: AccountingPlan | None) -> None:
        self._folder, self._accounting = folder, accounting

    def with_seats(self, plan: ClusterPlan) -> ClusterPlan:
        """Return the plan with second seats and tokens."""
        gpus = tuple(Gpu(minor_number=i, model="NVIDIA A100-SXM4-40GB") for i in range(8))
        nodes = [NodeGpus(node.name, gpus) for node in plan.nodes]
        text = gres.gres_conf(nodes, device_prefix=f"{self._folder}/gpu", seats=True)
        words = gres.node_gres(nodes[0], seats=True, counted={})
        script = plan.job_submit_lua
        assert script is not None
        assert "local SEATS = false" in script
        return replace(
            plan,
            nodes=tuple(replace(node, gres=words) for node in plan.nodes),
            gres_conf=text.replace(hook_seats.SEAT_FOLDER, f"{self._folder}/seats"),
            gres_types="gpu,gputoken",
            accounting=self._accounting,
            job_submit_lua=script.replace("local SEATS = false", "local SEATS = true"),
        )
