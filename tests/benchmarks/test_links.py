import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DATA = Path(os.environ.get("ROOST_DATA_DIR", REPOSITORY.parent / "shared" / "data"))
MATRICES = sorted((DATA / "topology" / "nvidia_smi_topo").glob("*.txt"))

BRIDGES = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity
GPU0\t X \tNV4\tPHB\tPHB\t0-15
GPU1\tNV4\t X \tPHB\tPHB\t0-15
GPU2\tPHB\tPHB\t X \tNV4\t0-15
GPU3\tPHB\tPHB\tNV4\t X \t0-15
"""


def run_links(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "links.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_counts_cases_and_slurms_regret_by_hand(tmp_path: Path) -> None:
    (tmp_path / "bridges.txt").write_text(BRIDGES)
    done = run_links("--json", "--topology", str(tmp_path / "bridges.txt"))
    figures = json.loads(done.stdout)
    # Pairs out of 11 free sets, threes out of 5, fours out of 1. From the idle node and from each
    # set of three Slurm takes a pair without a bridge, 30 points of 400; elsewhere it has no choice
    # or all choices are alike.
    assert (figures["matrices"], figures["cases"]) == (1, 17)
    assert figures["mean_regret"] == figures["worst_regret"] == 0.0
    assert figures["stock_worst_regret"] == pytest.approx(370 / 400)
    assert figures["stock_mean_regret"] == pytest.approx(5 * 370 / 400 / 17)
    assert figures["machine"]["cores"] >= 1


def test_bad_matrix_is_one_line_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(BRIDGES.replace("GPU1\tNV4", "GPU1\tNVX"))
    done = run_links("--topology", str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"links.py: {path}:")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"no matrix\n"])
def test_no_matrix_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    done = run_links("--topology", str(path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"links.py: {path}:1: ")


def test_missing_file(tmp_path: Path) -> None:
    done = run_links("--topology", str(tmp_path / "absent.txt"))
    assert done.returncode == 2
    assert done.stderr == f"links.py: {tmp_path / 'absent.txt'}: No such file or directory\n"


@pytest.mark.data
@pytest.mark.skipif(not MATRICES, reason=f"no matrices under {DATA}")
def test_real_matrices_have_no_regret() -> None:
    figures = json.loads(run_links("--json", "--topology", *map(str, MATRICES)).stdout)
    assert figures["matrices"] == len(MATRICES)
    assert figures["worst_regret"] == 0.0
    assert figures["stock_mean_regret"] > 0.0
