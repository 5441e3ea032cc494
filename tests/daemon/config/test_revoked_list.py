"""The list of revoked certificates: fingerprints as openssl and roost-slurm certs write them."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.revoked_list import read_revoked

DIGEST = "0a" * 32


@pytest.mark.parametrize(
    "line",
    [DIGEST, DIGEST.upper(), ":".join(["0A"] * 32), f"  {DIGEST} gpu7 2026-11-28", f"{DIGEST}#x"],
)
def test_a_fingerprint_begins_the_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "revoked.txt"
    file.write_text(f"# gone\n\n{line}\n")
    assert read_revoked(file) == {DIGEST}


def test_every_wrong_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "revoked.txt"
    file.write_bytes(f"zz\n{DIGEST}\n{DIGEST[:-1]}\n\xff\xfe\n".encode("latin1"))
    with pytest.raises(ConfigError) as failed:
        read_revoked(file)
    assert [problem.split(": ")[1][-1] for problem in failed.value.problems] == ["1", "3", "4"]


def test_an_empty_list_revokes_nothing(tmp_path: Path) -> None:
    (tmp_path / "revoked.txt").touch()
    assert read_revoked(tmp_path / "revoked.txt") == frozenset()
