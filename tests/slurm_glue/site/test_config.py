"""`roost-slurm config`: Slurm's files from what the probes saw."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory

from roost_slurm.site import config
from roost_slurm.site.config import SiteSettings
from roost_slurm.site.inventory import Gpu, NodeGpus
from roost_slurm.testing.cluster_plan import ClusterPlan, NodePlan
from roost_slurm.testing.local_slurm import LocalSlurm

A100 = "NVIDIA A100-SXM4-40GB"


def node(name: str, minors: tuple[int, ...] = (0, 1), model: str = A100) -> NodeGpus:
    return NodeGpus(name, tuple(Gpu(minor_number=minor, model=model) for minor in minors))


def test_groups_nodes_that_are_alike() -> None:
    nodes = [node("n1"), node("n2"), node("n3", (1, 0, 2)), node("login", ())]
    files = config.generate(nodes, SiteSettings())
    assert files["gres.conf"].splitlines() == [
        "AutoDetect=off",
        "NodeName=n[1-2] Name=gpu Type=g0 File=/dev/nvidia0",
        "NodeName=n[1-2] Name=gpu Type=g1 File=/dev/nvidia1",
        "NodeName=n3 Name=gpu Type=g0 File=/dev/nvidia1",
        "NodeName=n3 Name=gpu Type=g1 File=/dev/nvidia0",
        "NodeName=n3 Name=gpu Type=g2 File=/dev/nvidia2",
    ]
    assert files["nodes.conf"].splitlines()[1:] == [
        "NodeName=n[1-2] Gres=gpu:g0:1,gpu:g1:1 Feature=a100",
        "NodeName=n3 Gres=gpu:g0:1,gpu:g1:1,gpu:g2:1 Feature=a100",
    ]


def test_writes_paths_and_models_into_the_scripts() -> None:
    settings = SiteSettings(runtime_folder=Path("/srv/roost"), roost_slurm=Path("/opt/bin/rs"))
    files = config.generate([node("n1"), node("n2", model="Tesla T4")], settings)
    assert 'local HEARTBEAT = "/srv/roost/heartbeat"' in files["job_submit.lua"]
    assert 'local MODELS = "a100,t4"' in files["job_submit.lua"]
    assert "ROOST_SLURM=/opt/bin/rs\nRUNTIME_FOLDER=/srv/roost\n" in files["hooks/prolog.sh"]


def test_a_mixed_node_gets_no_feature() -> None:
    gpus = (Gpu(minor_number=0, model=A100), Gpu(minor_number=1, model="Tesla T4"))
    nodes = [NodeGpus("n1", gpus)]
    files = config.generate(nodes, SiteSettings())
    assert "Feature" not in files["nodes.conf"].splitlines()[1]
    assert config.mixed_nodes(nodes) == ("n1",)


def test_counts_gpus_by_model_where_the_operator_asks_for_it() -> None:
    nodes = [node("n1"), node("n2", model="Tesla T4")]
    files = config.generate(nodes, SiteSettings(counts_models=True))
    assert "NodeName=n2 Name=t4 Count=2 Flags=CountOnly" in files["gres.conf"]
    assert "GresTypes=gpu,a100,t4" in files["roost.conf"]
    assert "AccountingStorageTRES=gres/a100,gres/t4" in files["roost.conf"]
    assert "NodeName=n1 Gres=gpu:g0:1,gpu:g1:1,a100:2 Feature=a100" in files["nodes.conf"]
    assert 'local COUNTED = "a100,t4"' in files["job_submit.lua"]
    assert 'local MODEL = ""' in files["job_submit.lua"]


def test_by_default_no_model_is_counted() -> None:
    files = config.generate([node("n1")], SiteSettings())
    assert not [name for name, text in files.items() if "CountOnly" in text]
    assert 'local COUNTED = ""' in files["job_submit.lua"]
    assert 'local MODEL = "a100"' in files["job_submit.lua"]


def test_a_mixed_node_counts_nothing_and_hides_the_only_model() -> None:
    gpus = (Gpu(minor_number=0, model=A100), Gpu(minor_number=1, model="Tesla T4"))
    files = config.generate([node("n1"), NodeGpus("n2", gpus)], SiteSettings(counts_models=True))
    assert "NodeName=n2 Gres=gpu:g0:1,gpu:g1:1\n" in files["nodes.conf"]
    assert 'local MODEL = ""' in files["job_submit.lua"]
    assert 'local COUNTED = "a100"' in files["job_submit.lua"]


def test_a_model_that_slurm_would_take_for_another_gres_is_not_counted() -> None:
    settings = SiteSettings(counts_models=True, model_names={A100: "shard"})
    with pytest.raises(config.ConfigError, match="model shard cannot be counted"):
        config.generate([node("n1")], settings)


def test_the_filter_of_commands_knows_the_models_and_is_off_at_first() -> None:
    files = config.generate([node("n1")], SiteSettings())
    assert 'local MODELS = "a100"' in files["cli_filter.lua"]
    assert "# CliFilterPlugins=cli_filter/lua" in files["roost.conf"].splitlines()


def test_mps_is_asked_for_in_the_hooks_and_needs_seats() -> None:
    files = config.generate([node("n1")], SiteSettings(seats=True, mps=True))
    assert "\nOPTIONS=--mps\n" in files["hooks/prolog.sh"]
    plain = config.generate([node("n1")], SiteSettings(seats=True))
    assert "\nOPTIONS=\n" in plain["hooks/prolog.sh"]
    with pytest.raises(config.ConfigError, match="cure: --seats too"):
        config.generate([node("n1")], SiteSettings(mps=True))


def test_second_seats_come_with_tokens_and_devices() -> None:
    files = config.generate([node("n1")], SiteSettings(seats=True))
    assert (
        "NodeName=n1 Name=gpu Type=s1 MultipleFiles=/dev/nvidia1,/dev/roost/seat1"
        in (files["gres.conf"])
    )
    assert "gpu:s0:1,gpu:s1:1,gputoken:2" in files["nodes.conf"]
    assert "GresTypes=gpu,gputoken" in files["roost.conf"]
    assert "local SEATS = true" in files["job_submit.lua"]
    assert "c /dev/roost/seat1 0666 root root - 241:1" in files["roost-seats.conf"]


def test_the_hook_scripts_are_valid_shell(tmp_path: Path) -> None:
    config.write(config.generate([node("n1")], SiteSettings()), tmp_path, force=False)
    for script in (tmp_path / "hooks").iterdir():
        subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.slurm
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("seats", [False, True])
def test_slurm_accepts_what_is_generated(
    local_slurm_factory: LocalSlurmFactory, tmp_path: Path, seats: bool, counted: bool
) -> None:
    gpus = NodeGpus("n1", tuple(Gpu(minor_number=i, model=A100) for i in range(2)))
    devices = tmp_path / "gpu"
    for i in range(2):
        os.mknod(f"{devices}{i}", 0o666 | 0o020000, os.makedev(240, i))
    settings = SiteSettings(seats=seats, counts_models=counted, device_prefix=str(devices))
    files = config.generate([gpus], settings)
    (types,) = re.findall(r"^GresTypes=(\S+)", files["roost.conf"], re.MULTILINE)
    seat_folder = tmp_path / "seats"
    seat_folder.mkdir()
    for i in range(2):
        os.mknod(seat_folder / f"seat{i}", 0o666 | 0o020000, os.makedev(241, i))
    (line,) = [line for line in files["nodes.conf"].splitlines() if line.startswith("NodeName=")]
    cluster = local_slurm_factory(
        ClusterPlan(
            nodes=(
                NodePlan(
                    name="n1",
                    gres=line.split("Gres=")[1].split()[0],
                    features=("a100",),
                ),
            ),
            gres_types=types,
            gres_conf=files["gres.conf"].replace("/dev/roost", str(seat_folder)),
            job_submit_lua=files["job_submit.lua"],
        )
    )
    first = cluster.submit("--gres=gpu:a100:1")
    cluster.wait_for_state(first, "RUNNING")
    pinned = cluster.submit("--gres=gpu:g1:1,gputoken:1" if seats else "--gres=gpu:g1:1")
    cluster.wait_for_state(pinned, "RUNNING")
    assert "gpu:g0:1(IDX:0)" in cluster.show_job(first)
    assert "gpu:g1:1(IDX:1)" in cluster.show_job(pinned)
    assert ("a100(CNT:1)" in cluster.show_job(pinned)) is counted
    if seats:
        _check_seats(cluster, first, pinned)


def _check_seats(cluster: LocalSlurm, first: str, pinned: str) -> None:
    plain = cluster.submit("--gres=gpu:1")
    seat = cluster.submit("--gres=gpu:s1:1")
    cluster.wait_for_state(seat, "RUNNING")
    assert "gpu:s1:1(IDX:3)" in cluster.show_job(seat)
    assert cluster.state(plain) == "PENDING"  # both GPUs are taken: it takes no seat instead
    cluster.run("scancel", first, pinned)
    cluster.wait_for_state(plain, "RUNNING")
    assert "gpu:g0:1(IDX:0)" in cluster.show_job(plain)
