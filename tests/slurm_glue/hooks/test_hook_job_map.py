"""The folder in which dcgm-exporter finds the job of a GPU."""

from pathlib import Path

import pytest

from roost_slurm.hooks import hook_job_map
from roost_slurm.hooks.hook_job_map import JobMapError


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_the_job_map_must_be_roots_alone(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(JobMapError):
        hook_job_map.write(tmp_path, 1, [0])


def test_the_job_map_follows_no_links(tmp_path: Path) -> None:
    folder, target = tmp_path / "map", tmp_path / "passwd"
    folder.mkdir()
    target.write_text("77\n")
    (folder / "0").symlink_to(target)
    hook_job_map.remove(folder, 77)
    assert target.read_text() == "77\n"
    hook_job_map.write(folder, 78, [0])
    assert target.read_text() == "77\n"
    assert (folder / "0").read_text() == "78\n"
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(OSError, match="link"):
        hook_job_map.write(tmp_path / "link", 1, [1])


def test_without_a_folder_there_is_no_map(tmp_path: Path) -> None:
    hook_job_map.write(tmp_path / "none", 1, [0])
    hook_job_map.remove(tmp_path / "none", 1)
    assert list(tmp_path.iterdir()) == []


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_each_gpu_of_a_job_gets_a_file_with_its_number(tmp_path: Path) -> None:
    hook_job_map.write(tmp_path, 77, [0, 3])
    assert content(tmp_path) == {"0": "77\n", "3": "77\n"}  # and no temporary file
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o644


def test_a_later_job_replaces_an_earlier_one(tmp_path: Path) -> None:
    hook_job_map.write(tmp_path, 77, [0, 1])
    hook_job_map.write(tmp_path, 78, [1])
    assert content(tmp_path) == {"0": "77\n", "1": "78\n"}


def test_remove_deletes_only_files_that_name_the_job(tmp_path: Path) -> None:
    hook_job_map.write(tmp_path, 77, [0, 1])
    hook_job_map.write(tmp_path, 7, [2])
    (tmp_path / "README").write_text("77\n")
    hook_job_map.remove(tmp_path, 77)
    assert content(tmp_path) == {"2": "7\n", "README": "77\n"}
