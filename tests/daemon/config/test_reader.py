"""Whether another user can read a file."""

import os
from pathlib import Path

import pytest

from roostd.config.reader import Reader, service_user

STRANGER = Reader("slurm", 54321, frozenset({54321}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o11)
    return tmp_path / "open"


@pytest.mark.parametrize(
    ("mode", "complaint"),
    [(0o644, None), (0o604, None), (0o640, "cannot read it"), (0o600, "cannot read")],
)
def test_the_mode_of_the_file_counts(folder: Path, mode: int, complaint: str | None) -> None:
    file = folder / "a.pem"
    file.touch()
    file.chmod(mode)
    told = STRANGER.fault(file)
    assert (told is None) == (complaint is None)
    if complaint:
        assert complaint in str(told)
        assert "cure: chgrp" in str(told)


def test_owner_and_group_have_rights_of_their_own(folder: Path) -> None:
    file = folder / "a.pem"
    file.touch()
    file.chmod(0o040)
    found = file.stat()
    assert Reader("x", 54321, frozenset({found.st_gid})).fault(file) is None
    assert Reader("x", found.st_uid or 1, frozenset()).fault(file) is not None
    assert Reader("root", 0, frozenset()).fault(file) is None


def test_a_folder_above_that_is_closed_counts(folder: Path) -> None:
    file = folder / "a.pem"
    file.touch(0o644)
    folder.chmod(0o700)
    assert f"cannot enter {folder}; cure: chmod o+x {folder}" in str(STRANGER.fault(file))


def test_a_missing_file_and_a_folder_are_faults(folder: Path) -> None:
    assert "No such file" in str(STRANGER.fault(folder / "gone"))
    assert "no file" in str(STRANGER.fault(folder))


def test_users_of_the_machine_are_known() -> None:
    assert Reader.named("root").uid == 0
    with pytest.raises(KeyError):
        Reader.named("no-such-user")


def test_a_drop_in_of_the_site_names_the_user(tmp_path: Path) -> None:
    site, shipped = tmp_path / "etc", tmp_path / "usr"
    for place in (site, shipped):
        place.mkdir()
    folders = (str(site), str(shipped))
    assert service_user(folders) is None
    (shipped / "roostd.service").write_text("[Service]\nUser=slurm\n")
    assert service_user(folders) == "slurm"
    (site / "roostd.service.d").mkdir()
    (site / "roostd.service.d" / "user.conf").write_text("[Service]\nUser=slurmadm\n")
    assert service_user(folders) == "slurmadm"
