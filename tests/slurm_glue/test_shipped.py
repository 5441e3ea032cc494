"""Files that ship beside the package."""

from pathlib import Path

import pytest

from roost_slurm import shipped
from roost_slurm.shipped import ShippedFileMissing, read_shipped


@pytest.mark.parametrize("name", ["lua/job_submit.lua", "hooks/hook.sh"])
def test_reads_a_file_of_the_checkout(name: str) -> None:
    checkout = Path(shipped.__file__).parents[1]
    assert read_shipped(name) == (checkout / name).read_text()


def test_a_missing_file_names_every_place_and_the_cure() -> None:
    with pytest.raises(ShippedFileMissing) as missing:
        read_shipped("lua/none.lua")
    message = str(missing.value)
    assert message.startswith("no lua/none.lua in ")
    assert "share/roost" in message
    assert message.endswith("cure: install roost again")


def test_an_installation_is_read_where_there_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "one.txt").write_text("installed")
    monkeypatch.setattr(shipped, "_FOLDERS", (tmp_path / "checkout", tmp_path / "share"))
    assert read_shipped("one.txt") == "installed"
