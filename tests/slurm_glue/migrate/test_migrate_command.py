"""`roost-slurm migrate` beside stand-ins for scontrol and squeue."""

import os
from pathlib import Path

import pytest

from roost_slurm import cli

NEW = "gpu:g0:1,gpu:g1:1"
CONF = "NodeName=gpu[1-2] Gres=gpu:a100:2 CPUs=4\nPartitionName=main Nodes=ALL\n"
GRES = "Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"


class FakeSlurm:
    """Two nodes; scontrol and squeue are scripts that print files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etc, made = folder / "etc", folder / "made"
        for name, text in (("slurm.conf", CONF), ("gres.conf", GRES)):
            self._write(self.etc / name, text)
        lines = "".join(
            f"NodeName=gpu[1-2] Name=gpu Type=g{i} File=/dev/nvidia{i}\n" for i in (0, 1)
        )
        self._write(made / "gres.conf", f"AutoDetect=off\n{lines}")
        self._write(made / "nodes.conf", f"NodeName=gpu[1-2] Gres={NEW} Feature=a100\n")
        for program in ("scontrol", "squeue"):
            self._write(folder / program, f"#!/bin/sh\ncat {folder}/{program}.txt\n")
            (folder / program).chmod(0o755)
        self._write(folder / "squeue.txt", "")
        self.show(gpu1="IDLE", gpu2="IDLE")

    def show(self, done: tuple[str, ...] = (), **states: str) -> None:
        rows = [
            f"NodeName={name} Gres={NEW if name in done else 'gpu:a100:2'} State={state}\n"
            for name, state in states.items()
        ]
        self._write(self.folder / "scontrol.txt", "".join(rows))

    def migrate(self, *options: str) -> int:
        places = ("--slurm-folder", str(self.etc), "--files", str(self.folder / "made"))
        return cli.main(["migrate", *options, *places])

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeSlurm(tmp_path)


def test_the_plan_names_each_node_and_check_is_not_content(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slurm.migrate("--plan") == 0
    assert "gpu1             empty" in capsys.readouterr().out
    assert slurm.migrate("--check") == 1
    slurm.show(("gpu1", "gpu2"), gpu1="IDLE", gpu2="IDLE")
    assert slurm.migrate("--check") == 0


def test_a_node_that_is_not_drained_is_refused(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slurm.migrate("--step", "gpu1") == 2
    assert "state=drain" in capsys.readouterr().err
    assert (slurm.etc / "slurm.conf").read_text() == CONF
    assert slurm.migrate("--step", "gpu9") == 2


def test_a_step_changes_one_node_and_the_way_back_gives_its_lines_again(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.show(gpu1="IDLE", gpu2="IDLE+DRAIN")
    assert slurm.migrate("--plan") == 0
    assert "next: roost-slurm migrate --step gpu2" in capsys.readouterr().out
    assert slurm.migrate("--step", "gpu2") == 0
    conf = (slurm.etc / "slurm.conf").read_text()
    assert f"NodeName=gpu2 Gres={NEW} Feature=a100 CPUs=4" in conf
    assert "NodeName=gpu1 Gres=gpu:a100:2 CPUs=4" in conf
    assert "NodeName=gpu1 Name=gpu Type=a100" in (slurm.etc / "gres.conf").read_text()
    assert "systemctl restart slurmctld" in capsys.readouterr().out

    slurm.show(("gpu2",), gpu1="IDLE", gpu2="IDLE+DRAIN")
    assert slurm.migrate("--step", "gpu2", "--back") == 0
    assert "NodeName=gpu2 Gres=gpu:a100:2 CPUs=4" in (slurm.etc / "slurm.conf").read_text()
    assert "Type=g0" not in (slurm.etc / "gres.conf").read_text()


def test_features_come_first_and_change_no_types(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slurm.migrate("--features") == 0
    assert "scontrol reconfigure" in capsys.readouterr().out
    conf = (slurm.etc / "slurm.conf").read_text()
    assert "NodeName=gpu[1-2] Gres=gpu:a100:2 Feature=a100 CPUs=4" in conf
    assert (slurm.etc / "gres.conf").read_text() == GRES
    assert slurm.migrate("--features") == 0
    assert "has its feature" in capsys.readouterr().out
    assert (slurm.etc / "slurm.conf").read_text() == conf


def test_nodes_in_an_included_file_are_changed_there(slurm: FakeSlurm) -> None:
    main = "ClusterName=c\nNodeName=DEFAULT Feature=fast\nInclude %c/nodes.conf\n"
    (slurm.etc / "slurm.conf").write_text(main)
    nodes = slurm.etc / "c" / "nodes.conf"
    nodes.parent.mkdir()
    nodes.write_text(CONF)
    assert slurm.migrate("--features") == 0
    slurm.show(gpu1="IDLE", gpu2="IDLE+DRAIN")
    assert slurm.migrate("--step", "gpu2") == 0
    assert f"NodeName=gpu2 Gres={NEW} Feature=fast,a100 CPUs=4" in nodes.read_text()
    assert "NodeName=gpu1 Gres=gpu:a100:2 Feature=fast,a100 CPUs=4" in nodes.read_text()
    assert (slurm.etc / "slurm.conf").read_text() == main
    slurm.show(("gpu2",), gpu1="IDLE", gpu2="IDLE+DRAIN")
    assert slurm.migrate("--step", "gpu2", "--back") == 0
    assert "NodeName=gpu2 Gres=gpu:a100:2 Feature=fast CPUs=4" in nodes.read_text()


def test_a_node_without_a_line_of_its_own_is_named(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be one that its slurmd has brought: `slurmd -Z`."""
    (slurm.etc / "slurm.conf").write_text("NodeName=gpu1 Gres=gpu:a100:2\n")
    assert slurm.migrate("--features") == 0
    assert "gpu2 has no NodeName line: give it Feature=a100 by hand" in capsys.readouterr().out
    slurm.show(gpu1="IDLE", gpu2="IDLE+DRAIN")
    assert slurm.migrate("--step", "gpu2") == 2
    assert "no NodeName line with gpu2 in" in capsys.readouterr().err


def test_a_step_leaves_what_it_does_not_know_of(slurm: FakeSlurm) -> None:
    """Nodes that Roost does not describe or Slurm hides, and resources that are no GPUs."""
    conf = CONF.replace("gpu:a100:2", "gpu:a100:2,nvme:4") + "NodeName=mig1 Gres=gpu:4\n"
    (slurm.etc / "slurm.conf").write_text(conf)
    (slurm.etc / "gres.conf").write_text(f"{GRES}Name=nvme Count=4\n")
    (slurm.folder / "scontrol.txt").write_text(
        "NodeName=gpu1 Gres=gpu:a100:2,nvme:4 State=IDLE+DRAIN\n"
    )
    assert slurm.migrate("--step", "gpu1") == 0
    assert f"NodeName=gpu1 Gres={NEW},nvme:4 " in (slurm.etc / "slurm.conf").read_text()
    lines = (slurm.etc / "gres.conf").read_text().splitlines()
    assert lines[:2] == [
        "NodeName=gpu2,mig1 Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "Name=nvme Count=4",
    ]
    (slurm.folder / "scontrol.txt").write_text(
        f"NodeName=gpu1 Gres={NEW},nvme:4 State=IDLE+DRAIN\n"
    )
    assert slurm.migrate("--check") == 0
    assert slurm.migrate("--step", "gpu1", "--back") == 0
    assert "NodeName=gpu1 Gres=gpu:a100:2,nvme:4 " in (slurm.etc / "slurm.conf").read_text()
    assert (slurm.etc / "gres.conf").read_text().count("nvme") == 1


def test_features_are_taken_back_step_by_step_only(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slurm.migrate("--features") == 0
    assert slurm.migrate("--features", "--back") == 2
    assert "each --step NODE --back takes them away" in capsys.readouterr().err


def test_slurmds_copy_of_the_controllers_files_is_left_alone(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.etc = slurm.etc.rename(slurm.folder / "conf-cache")
    assert slurm.migrate("--features") == 2
    assert "cure: run this on the controller" in capsys.readouterr().err
    assert (slurm.etc / "slurm.conf").read_text() == CONF


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--features",), "etc/slurm.conf: Is a directory\n"),
        (("--plan", "--back"), "before-roost: No such file or directory; migrate has changed"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    (slurm.etc / "slurm.conf").unlink()
    (slurm.etc / "slurm.conf").mkdir()
    assert slurm.migrate(*options) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Errno" not in told


def test_slurm_that_does_not_answer_is_said(
    slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    (slurm.folder / "scontrol").write_text("#!/bin/sh\necho Unable to contact >&2; exit 1\n")
    assert slurm.migrate("--plan") == 2
    assert "Unable to contact" in capsys.readouterr().err
