"""`roost-slurm certs`: what it makes, keeps, renews, revokes and refuses."""

import shutil
import ssl
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import missing

from roost_slurm import cli
from roost_slurm.site.certs import ISSUED, REVOKED, Authority, CertificateError, fingerprint

DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def _has_openssl() -> None:
    if shutil.which("openssl") is None:
        missing("openssl is not installed: no certificates can be made")


def certs(folder: Path, *options: str) -> int:
    return cli.main(["certs", str(folder), *options])


def shown(certificate: Path, *what: str) -> str:
    argv = ["openssl", "x509", "-in", str(certificate), "-noout", *what]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_makes_an_authority_and_a_certificate_for_each_name(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    options = ["--daemon", "control1", "--daemon", "10.0.0.1", "--daemon", "fe80::1"]
    assert certs(folder, *options, "--nodes", "gpu[01-02]", "--domain", "example.org") == 0

    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{end}" for name in ("ca", "roostd", "gpu01", "gpu02") for end in ("pem", "key")
    } | {"revoked.txt", "issued.txt"}
    assert (folder / "revoked.txt").read_text() == ""  # roostd can be told of it from the start
    for name in ("roostd", "gpu01", "gpu02"):
        argv = ["openssl", "verify", "-CAfile", f"{folder}/ca.pem", f"{folder}/{name}.pem"]
        assert subprocess.run(argv, check=False, capture_output=True).returncode == 0
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            folder / f"{name}.pem", folder / f"{name}.key"
        )
    names = shown(folder / "gpu01.pem", "-ext", "subjectAltName")
    assert "DNS:gpu01, DNS:gpu01.example.org" in names
    assert "IP Address:10.0.0.1" in shown(folder / "roostd.pem", "-ext", "subjectAltName")
    assert "CA:FALSE" in shown(folder / "gpu01.pem", "-ext", "basicConstraints")


def test_host_names_may_be_as_long_as_dns_has_them_and_nodes_may_be_numbers(tmp_path: Path) -> None:
    """Names of cloud machines with their domains have more than the 64 letters of a subject."""
    node, domain = "n" * 63, "c.project-4711.internal"
    assert certs(tmp_path, "--nodes", f"{node},0017", "--domain", domain) == 0
    assert f"DNS:{node}, DNS:{node}.{domain}" in shown(
        tmp_path / f"{node}.pem", "-ext", "subjectAltName"
    )
    assert "DNS:0017, DNS:0017." in shown(tmp_path / "0017.pem", "-ext", "subjectAltName")
    made = (tmp_path / f"{node}.pem").read_bytes()
    assert certs(tmp_path, "--nodes", f"{node},0017", "--domain", domain) == 0
    assert (tmp_path / f"{node}.pem").read_bytes() == made


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    certs(folder, "--nodes", "n1")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}


def test_a_second_run_keeps_what_is_good_and_makes_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--daemon", "10.0.0.1", "--daemon", "fe80::1"]
    certs(tmp_path, *options, "--nodes", "n1")
    before = (tmp_path / "n1.pem").read_bytes()
    capsys.readouterr()
    assert certs(tmp_path, *options, "--nodes", "n[1-2]") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "n2.pem")]
    assert (tmp_path / "n1.pem").read_bytes() == before


def test_what_expires_soon_is_listed_and_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certs(tmp_path, "--nodes", "n1", "--days", "20")
    certs(tmp_path, "--nodes", "n2")
    capsys.readouterr()
    assert certs(tmp_path, "--check") == cli.DIFFERENT
    assert capsys.readouterr().out.splitlines()[0] == "n1: 20 days left"
    assert certs(tmp_path, "--nodes", "n[1-2]") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "n1.pem")]
    assert certs(tmp_path, "--check") == 0


def test_other_names_make_another_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    assert list(authority.make([("roostd", ["control1"])])) == ["roostd"]
    assert list(authority.make([("roostd", ["control2"])])) == ["roostd"]
    assert list(authority.make([("roostd", ["Control2"])])) == []


def test_the_wall_clock_decides_what_expires(tmp_path: Path) -> None:
    list(Authority(tmp_path).make([("n1", ["n1"])], days=100))
    later = Authority(tmp_path, now_s=lambda: time.time() + 90 * DAY_S)
    assert list(later.make([("n1", ["n1"])])) == ["n1"]


def test_a_revoked_certificate_is_on_the_list_and_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certs(tmp_path, "--nodes", "n[1-2]")
    digest = fingerprint(tmp_path / "n1.pem")
    given = shown(tmp_path / "n1.pem", "-fingerprint", "-sha256").strip().partition("=")[2]
    assert given.replace(":", "").lower() == digest  # as openssl shows it

    assert certs(tmp_path, "--revoke", "n1") == 0
    assert certs(tmp_path, "--revoke", "n2") == 0
    lines = (tmp_path / REVOKED).read_text().splitlines()
    assert lines[0].startswith(f"{digest} n1 20")
    assert len(lines) == 2
    assert not (tmp_path / "n1.pem").exists()
    assert not (tmp_path / "n1.key").exists()
    assert certs(tmp_path, "--revoke", "n1") == cli.BAD_INPUT
    assert "n1.pem: No such file" in capsys.readouterr().err


def test_the_earlier_certificates_of_a_node_are_revoked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node may still have the certificate from before its renewal, which is valid."""
    made = list[str]()
    for days in ("20", "20", "825"):
        certs(tmp_path, "--nodes", "n[1-2]", "--days", days)
        made.append(fingerprint(tmp_path / "n1.pem"))
    other = fingerprint(tmp_path / "n2.pem")
    capsys.readouterr()
    assert certs(tmp_path, "--revoke", "n1") == 0
    assert capsys.readouterr().out.splitlines() == [f"{digest} n1" for digest in made]
    assert [line.split()[0] for line in (tmp_path / REVOKED).read_text().splitlines()] == made
    assert other not in (tmp_path / REVOKED).read_text()

    certs(tmp_path, "--nodes", "n1")  # the node's next certificate is believed
    assert fingerprint(tmp_path / "n1.pem") not in (tmp_path / REVOKED).read_text()
    new = fingerprint(tmp_path / "n1.pem")
    assert certs(tmp_path, "--revoke", "n1") == 0
    assert (tmp_path / REVOKED).read_text().count(" n1 ") == 4
    assert new in (tmp_path / REVOKED).read_text()


def test_a_folder_without_a_list_of_what_was_made_lists_what_it_replaces(tmp_path: Path) -> None:
    certs(tmp_path, "--nodes", "n1", "--days", "20")
    (tmp_path / ISSUED).unlink()
    before = fingerprint(tmp_path / "n1.pem")
    certs(tmp_path, "--nodes", "n1")
    assert certs(tmp_path, "--revoke", "n1") == 0
    assert before in (tmp_path / REVOKED).read_text()


@pytest.mark.parametrize("name", ["ca", "roostd"])
def test_neither_the_authority_nor_roostd_is_revoked_by_mistake(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    certs(tmp_path, "--daemon", "control1", "--nodes", "n1")
    assert certs(tmp_path, "--revoke", name) == cli.BAD_INPUT
    assert f"{name}: not a node's certificate" in capsys.readouterr().err
    assert (tmp_path / f"{name}.pem").exists()
    assert (tmp_path / f"{name}.key").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "nothing to make"),
        (["--nodes", "ca"], "ca: no name for a node here"),
        (["--nodes", "roostd"], "roostd: no name for a node here"),
        (["--nodes", "../etc"], "no host name or address"),
        (["--daemon", "a,DNS:b"], "no host name or address"),
        (["--daemon", "a\nb"], "no host name or address"),
        (["--daemon", "10.0.0.256"], "no host name or address"),
        (["--daemon", "1.2.3.4.5"], "no host name or address"),
        (["--daemon", ":::"], "no host name or address"),
        (["--daemon", "h" * 65], "no host name or address"),
        (["--daemon", ".".join(["host"] * 60)], "no host name or address"),
        (["--nodes", "n" * 65], "no host name or address"),
        (["--nodes", "gpu[1"], "gpu[1"),
        (["--nodes", "n1", "--days", "0x"], "want 1 to 36500 days"),
        (["--nodes", "n1", "--days", "0"], "want 1 to 36500 days"),
        (["--nodes", "n1", "--renew-before", "-1"], "want 1 to 36500 days"),
        (["--check"], "no authority there"),  # a misspelt folder is not a good one
    ],
)
def test_wrong_input_is_named_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], problem: str
) -> None:
    try:
        code = certs(tmp_path / "tls", *options)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    assert code == cli.BAD_INPUT
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "tls").exists()


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert certs(tmp_path / "file", "--nodes", "n1") == cli.BAD_INPUT
    assert (
        capsys.readouterr().err == f"roost-slurm certs: {tmp_path}/file: no folder: File exists\n"
    )


def test_an_authority_without_its_key_is_not_replaced(tmp_path: Path) -> None:
    certs(tmp_path, "--nodes", "n1")
    before = (tmp_path / "ca.pem").read_bytes()
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CertificateError, match=r"ca\.key: missing; bring it back"):
        list(Authority(tmp_path).make([("n2", ["n2"])]))
    assert (tmp_path / "ca.pem").read_bytes() == before


def test_a_failure_of_openssl_leaves_what_was_there(tmp_path: Path) -> None:
    certs(tmp_path, "--nodes", "n1")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def fails(arguments: object) -> str:
        raise CertificateError("openssl: no entropy")

    with pytest.raises(CertificateError, match="no entropy"):
        list(Authority(tmp_path, fails).make([("n2", ["n2"])]))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_openssl_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CertificateError, match="install the package openssl"):
        list(Authority(tmp_path / "tls").make([("n1", ["n1"])]))
