"""What Prolog leaves for TaskProlog: read only where no other user can have written it."""

import os
from pathlib import Path

import pytest

from roost_slurm.hooks import hook_seats


def test_what_was_remembered_is_recalled_until_it_is_forgotten(tmp_path: Path) -> None:
    folder, me = tmp_path / "seats", os.geteuid()
    hook_seats.remember(folder, 7, (3, 5))
    hook_seats.remember(folder, 8, (1,))
    assert hook_seats.recall(folder, 7, me) == (3, 5)
    hook_seats.forget(folder, 7)
    hook_seats.forget(folder, 7)
    assert hook_seats.recall(folder, 7, me) is None
    assert hook_seats.recall(folder, 8, me) == (1,)
    assert [path.name for path in folder.iterdir()] == ["8"]


@pytest.mark.parametrize("text", ["", "3", "3,x\n", "-1\n", "\u00b3\n", "9999\n"])
def test_what_is_no_list_of_gpus_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "7").write_text(text)
    assert hook_seats.recall(tmp_path, 7, os.geteuid()) is None


def test_a_folder_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    folder, me = tmp_path / "seats", os.geteuid()
    hook_seats.remember(folder, 7, (3,))
    folder.chmod(0o777)
    assert hook_seats.recall(folder, 7, me) is None
    folder.chmod(0o755)
    assert hook_seats.recall(folder, 7, me + 1) is None
    assert hook_seats.recall(tmp_path / "nowhere", 7, me) is None
    hook_seats.forget(tmp_path / "nowhere", 7)
