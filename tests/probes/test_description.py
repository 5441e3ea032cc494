"""Descriptions and the command that makes fake nodes: right ones work, wrong ones say where."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roost_probe.testing.__main__ import main
from roost_probe.testing.description import load_description, load_topology, parse_description
from roost_probe.testing.errors import DescriptionError
from roost_probe.testing.fake_driver import FakeDriver
from roost_probe.testing.layout import lay_out
from roost_probe.testing.matrix import expand


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("topology: bridges8\nmodle: x\n", "node.yaml:2: modle: unknown key, did you mean model?"),
        ("topology: bridge8\n", "no topology 'bridge8'; give a file, or one of bridges4"),
        ("topology: bridges4\ngpus:\n  0:\n    power_w: hot\n", "node.yaml:4: gpus.0.power_w"),
        ("topology: bridges4\ngpus: {9: {power_w: 1}}\n", "gpu 9: the topology has GPUs 0 to 3"),
        ("topology: bridges4\nminor_numbers: [0]\n", "1 minor_numbers for 4 GPUs"),
        ("topology: bridges4\nfaults: [{kind: melt}]\n", "node.yaml:2: faults.0: kind is 'melt'"),
        ("topology: [\n", "node.yaml: no valid YAML"),
        ("- bridges8\n", "want a mapping, got list"),
        ("topology: |\n  GPU0\tGPU1\n  GPU0\tX\tNV9x\n", "topology:"),
    ],
)
def test_a_wrong_description_says_where(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(text)

    with pytest.raises(DescriptionError) as caught:
        load_description(tmp_path / "node.yaml")

    assert error in str(caught.value)


def test_a_matrix_may_stand_in_the_description_or_in_a_file_beside_it(tmp_path: Path) -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\tX\tNV2\nGPU1\tNV2\tX\n"
    (tmp_path / "pair.txt").write_text(matrix)
    (tmp_path / "node.yaml").write_text("topology: pair.txt\n")
    inline = json.dumps({"topology": matrix})

    from_file, from_text = load_description(tmp_path / "node.yaml"), parse_description(inline)

    assert from_file.topology.links == from_text.topology.links
    assert from_file.topology.links.score([0, 1]) == 200


def test_lanes_that_no_hardware_could_wire_are_refused() -> None:
    matrix = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV18\tNV4\nGPU1\tNV18\tX\tNV2\nGPU2\tNV4\tNV2\tX\n"

    with pytest.raises(DescriptionError, match="set `nvswitch: false`"):
        lay_out(load_topology(matrix))


def test_ranges_are_expanded() -> None:
    assert expand("0-2,8") == (0, 1, 2, 8)
    assert expand(None) == ()


def test_the_same_seed_gives_the_same_uuids_and_another_does_not(tmp_path: Path) -> None:
    uuids = list[bytes]()
    for path, seed in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        driver = FakeDriver.of_topology("bridges4", tmp_path / path, seed)
        uuids.append(driver._state.gpus[0].uuid)
        driver.close()

    assert uuids[0] == uuids[1] != uuids[2]


def test_the_command_refuses_what_it_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    assert main(["create", "--topology", "bridges4", "--state", state]) == 0

    assert main(["set", "--state", state, "--gpu", "0", "sm=1"]) == 2
    assert main(["set", "--state", state, "--gpu", "7", "sm_frac=1"]) == 2
    assert main(["fault", "--state", state, "explode"]) == 2
    assert main(["fault", "--state", state, "--gpu", "0", "absent=colour"]) == 2
    assert main(["fault", "--state", str(tmp_path / "none"), "--gpu", "0", "lost"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 5
    assert all(line.startswith("error: ") for line in errors)


@pytest.mark.nvml
def test_the_command_makes_and_changes_a_node_that_the_probe_reads(
    tmp_path: Path, library_folder: Path
) -> None:
    state = tmp_path / "state"

    def testing(*arguments: str) -> None:
        command = [sys.executable, "-m", "roost_probe.testing", *arguments]
        subprocess.run(command, check=True)

    testing("create", "--topology", "bridges4", "--state", str(state), "--lib-dir", str(tmp_path))
    testing("set", "--state", str(state), "--gpu", "1", "sm_frac=0.5", "pcie_tx_bytes_per_s=1e9")
    testing("fault", "--state", str(state), "--gpu", "2", "lost")
    testing("fault", "--state", str(state), "absent=power")
    done = subprocess.run(
        [sys.executable, "-m", "roost_probe.cli", "--once", "--json", "--interval-s", "0.05"],
        env={
            **os.environ,
            "ROOST_FAKE_NVML_STATE": str(state),
            "LD_LIBRARY_PATH": str(tmp_path),
        },
        capture_output=True,
        check=True,
    )
    gpus = json.loads(done.stdout)["gpus"]

    assert [gpu["lost"] for gpu in gpus] == [False, False, True, False]
    assert gpus[1]["sm_frac"] == 0.5
    assert gpus[1]["pcie_tx_bytes_per_s"] == pytest.approx(1e9, rel=0.8)
    assert [gpu["power_w"] for gpu in gpus] == [None] * 4
