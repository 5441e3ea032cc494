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
