import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The public traces and tables, which are no part of the project."""
    default = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("ROOST_DATA_DIR", default))
    if not (folder / "jobs").is_dir():
        pytest.skip(f"no public traces in {folder}; set ROOST_DATA_DIR")
    return folder


_CLUSTER = """
tiers:
  node: {gbytes_per_s: 25}
  rack: {gbytes_per_s: 10}
  pod: {gbytes_per_s: 10}
node_kinds:
  plain: {links: pcie8}
racks:
  r0:
    nodes: {plain: 1}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """One node of eight GPUs."""
    path = tmp_path / "cluster.yaml"
    path.write_text(_CLUSTER)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three whole-node jobs, the last the shortest, and one that is too large."""
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,100,8\n10,80,8\n20,40,8\n30,10,64\n")
    return path
