"""What is kept of a problem that a crash test finds."""

import shutil
from pathlib import Path

from tests.crash.evidence import gpus_of_nodes, keep_logs


def test_the_logs_of_all_parts_outlive_their_folders(tmp_path: Path) -> None:
    slurm, roost = tmp_path / "slurm", tmp_path / "roost"
    for folder, name in ((slurm, "slurmctld.log"), (slurm, "slurm.conf"), (roost, "roostd.log")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(name)

    kept = keep_logs([slurm, roost])
    try:
        shutil.rmtree(slurm)
        assert {path.name: path.read_text() for path in kept.iterdir()} == {
            "slurmctld.log": "slurmctld.log",
            "roostd.log": "roostd.log",
        }
    finally:
        shutil.rmtree(kept)


def test_of_each_node_the_gpus_are_told_that_slurm_knows_and_takes_for_used() -> None:
    shown = (
        "NodeName=n1 Arch=x86_64 CPUTot=32 Gres=gpu:g0:1,gpu:g1:1 GresDrain=N/A"
        " GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1) State=IDLE ThreadsPerCore=1\n"
        "NodeName=n2 Gres=(null) State=IDLE*\n\n"
    )
    assert gpus_of_nodes(shown) == [
        "NodeName=n1 Gres=gpu:g0:1,gpu:g1:1 GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1) State=IDLE",
        "NodeName=n2 Gres=(null) State=IDLE*",
    ]
