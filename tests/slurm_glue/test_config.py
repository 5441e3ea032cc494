"""`roost-slurm config`: Slurm's files from what the probes saw."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import LocalSlurmFactory

from roost_slurm import cli, config, gpu_models, inventory
from roost_slurm.config import SiteSettings
from roost_slurm.inventory import Gpu, InventoryError, NodeGpus
from roost_slurm.testing.cluster_plan import ClusterPlan, NodePlan
from roost_slurm.testing.local_slurm import LocalSlurm

A100 = "NVIDIA A100-SXM4-40GB"
Run = Callable[..., int]


def node(name: str, minors: tuple[int, ...] = (0, 1), model: str = A100) -> NodeGpus:
    return NodeGpus(name, tuple(Gpu(minor_number=minor, model=model) for minor in minors))


def described(minors: list[int], model: str = A100, **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [
            {"index": i, "uuid": f"GPU-{i}", "model": model, "minor_number": minor, **more}
            for i, minor in enumerate(minors)
        ],
    }


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA TITAN RTX", "rtx"),
    ],
)
def test_shortens_model_names(model: str, short: str) -> None:
    assert gpu_models.short_name(model) == short


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


def test_gres_order_is_that_of_the_device_files(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text(json.dumps(described([7, 0, 3])))
    (loaded,) = inventory.load([tmp_path / "n1.json"])
    assert loaded == node("n1", (0, 3, 7))


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


@pytest.mark.parametrize(
    "document",
    [
        {"n1": described([0, 1]), "n2": described([0, 1])},
        [{"node": "n1", **described([0, 1])}, {"node": "n2", **described([0, 1])}],
    ],
)
def test_reads_one_file_for_all_nodes(tmp_path: Path, document: object) -> None:
    (tmp_path / "all.json").write_text(json.dumps(document))
    assert inventory.load([tmp_path / "all.json"]) == (node("n1"), node("n2"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "no node described"),
        ("3", "want an object with a list gpus"),
        ('[{"gpus": []}]', "entry 0: '' is no node name"),
        ('{"n1": {"gpus": 3}}', "node n1: want an object with a list gpus"),
        ('{"n[1-2]": {"gpus": []}}', "is no node name"),
        ('{"n1": {"gpus": [{"model": "T4"}]}}', "node n1 GPU 0: minor_number is None"),
        ('{"n1": {"gpus": [{"minor_number": true, "model": "T4"}]}}', "minor_number is True"),
        ('{"n1": {"gpus": [{"minor_number": 0}]}}', "node n1 GPU 0: model is None"),
        (json.dumps({"n1": described([3, 3])}), "two GPUs have minor number 3"),
        (json.dumps({"n1": described([0], mig_enabled=True)}), "node n1 GPU 0: MIG is enabled"),
    ],
)
def test_refuses_what_it_cannot_use(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "all.json").write_text(text)
    with pytest.raises(InventoryError, match=r"all\.json|no node") as refused:
        inventory.load([tmp_path / "all.json"])
    assert problem in str(refused.value)


def test_names_all_problems_at_once(tmp_path: Path) -> None:
    document = {"n1": described([0], mig_enabled=True), "n2": described([5, 5])}
    (tmp_path / "all.json").write_text(json.dumps(document))
    with pytest.raises(InventoryError) as refused:
        inventory.load([tmp_path / "all.json", tmp_path / "gone.json"])
    assert len(refused.value.problems) == 3


def test_a_node_may_be_described_once(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"node": "n1", **described([0])}))
    with pytest.raises(InventoryError, match="n1 is described twice"):
        inventory.load([tmp_path / "a.json", tmp_path / "b.json"])


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "n1.json").write_text(json.dumps(described([0, 1])))

    def command(*options: str) -> int:
        where = ["--out", str(tmp_path / "out")]
        return cli.main(["config", str(tmp_path / "n1.json"), *where, *options])

    return command


def test_writes_a_folder_that_check_then_accepts(run: Run, tmp_path: Path) -> None:
    assert run("--check") == cli.DIFFERENT
    assert not (tmp_path / "out").exists()
    assert run() == 0
    assert run("--check") == 0
    assert run() == 0  # nothing would change
    assert os.access(tmp_path / "out" / "hooks" / "prolog.sh", os.X_OK)


def test_never_overwrites_without_force(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    path = tmp_path / "out" / "gres.conf"
    path.write_text("mine\n")
    (tmp_path / "out" / "nodes.conf").unlink()
    assert run() == cli.BAD_INPUT
    assert str(path) in capsys.readouterr().err
    assert path.read_text() == "mine\n"
    assert not (tmp_path / "out" / "nodes.conf").exists()
    assert run("--force") == 0
    assert run("--check") == 0


def test_check_shows_what_drifted(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    (tmp_path / "n1.json").write_text(json.dumps(described([0, 1, 2])))
    capsys.readouterr()
    assert run("--check") == cli.DIFFERENT
    assert "+NodeName=n1 Name=gpu Type=g2 File=/dev/nvidia2" in capsys.readouterr().out


@pytest.mark.parametrize("pair", ["x", "=a", "a=", f"{A100}=A 100"])
def test_refuses_a_wrong_model_name(run: Run, pair: str) -> None:
    assert run("--model", pair) == cli.BAD_INPUT


def test_the_hook_scripts_are_valid_shell(run: Run, tmp_path: Path) -> None:
    run()
    for script in (tmp_path / "out" / "hooks").iterdir():
        subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.slurm
@pytest.mark.parametrize("seats", [False, True])
def test_slurm_accepts_what_is_generated(
    local_slurm_factory: LocalSlurmFactory, tmp_path: Path, seats: bool
) -> None:
    gpus = NodeGpus("n1", tuple(Gpu(minor_number=i, model=A100) for i in range(2)))
    devices = tmp_path / "gpu"
    for i in range(2):
        os.mknod(f"{devices}{i}", 0o666 | 0o020000, os.makedev(240, i))
    files = config.generate([gpus], SiteSettings(seats=seats, device_prefix=str(devices)))
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
            gres_types="gpu,gputoken" if seats else "gpu",
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
