"""roost.conf beside what a site's slurm.conf has already."""

import subprocess
from pathlib import Path

import pytest

from roost_slurm.install.install_conf import adapt, settings, wrapper

HOOKS = Path("/etc/slurm/hooks")
ROOST_CONF = """# For the end of slurm.conf
GresTypes=gpu
JobSubmitPlugins=lua
PrologFlags=Alloc
PrologEpilogTimeout=30
Prolog=/etc/slurm/hooks/prolog.sh
Epilog=/etc/slurm/hooks/epilog.sh
"""


def conf(folder: Path, text: str) -> Path:
    path = folder / "slurm.conf"
    path.write_text(text)
    return path


def test_a_bare_site_gets_every_line(tmp_path: Path) -> None:
    own = settings(conf(tmp_path, "ClusterName=x\n# Prolog=/old\n"))
    adapted = adapt(ROOST_CONF, own, HOOKS)
    assert adapted.text == ROOST_CONF
    assert (adapted.wrappers, adapted.to_do) == ({}, [])


def test_keys_that_the_site_has_are_left_to_the_site(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        "GresTypes=gpu,shard\njobsubmitplugins=cray # ours\nProlog=/site/p.sh\nPrologFlags=alloc\n",
    )
    adapted = adapt(ROOST_CONF, settings(path), HOOKS)
    active = [line for line in adapted.text.splitlines() if not line.startswith("#")]
    assert active == ["PrologEpilogTimeout=30", "Epilog=/etc/slurm/hooks/epilog.sh"]
    assert adapted.to_do == [
        f"{path}:2: change JobSubmitPlugins=cray to JobSubmitPlugins=cray,lua",
        f"{path}:3: change Prolog=/site/p.sh to Prolog=/etc/slurm/hooks/site-prolog.sh",
    ]
    assert list(adapted.wrappers) == ["site-prolog.sh"]


def test_what_an_included_file_sets_counts_too(tmp_path: Path) -> None:
    (tmp_path / "site.conf").write_text("PrologEpilogTimeout=9\nInclude slurm.conf\n")
    (tmp_path / "roost.conf").write_text("Epilog=/ours\n")
    path = conf(
        tmp_path,
        "Prolog = \\\n  /site/p.sh\r\nINCLUDE\tsite.conf # ours\nInclude roost.conf\n"
        'Include /nowhere/x.conf\nGresTypes=gpu PrologFlags="alloc,x11"\n',
    )
    own = settings(path)
    assert {key: line.value for key, line in own.items()} == {
        "prolog": "/site/p.sh",
        "prologepilogtimeout": "9",
        "grestypes": "gpu",
        "prologflags": "alloc,x11",
    }
    assert own["prolog"].where == f"{path}:1"
    assert own["prologepilogtimeout"].where == f"{tmp_path}/site.conf:1"


def test_slurm_takes_the_latest_of_a_key_and_puts_the_cluster_into_names(tmp_path: Path) -> None:
    (tmp_path / "x-hooks.conf").write_text("Prolog=/site/new.sh\n")
    path = conf(tmp_path, "ClusterName=x\nProlog=/site/old.sh\nInclude %c-hooks.conf\n")
    assert settings(path)["prolog"].value == "/site/new.sh"


def test_a_plug_in_with_its_kind_is_known(tmp_path: Path) -> None:
    own = settings(conf(tmp_path, "JobSubmitPlugins=job_submit/lua,job_submit/cray\n"))
    assert adapt(ROOST_CONF, own, HOOKS).to_do == []


def test_a_comment_in_latin_1_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_bytes(b"# Schl\xfcssel\nProlog=/site/p.sh\n")
    assert settings(path)["prolog"].value == "/site/p.sh"


def test_a_wrapper_in_use_is_no_work(tmp_path: Path) -> None:
    path = conf(
        tmp_path, "Prolog=/etc/slurm/hooks/site-prolog.sh\nEpilog=/etc/slurm/hooks/epilog.sh\n"
    )
    adapted = adapt(ROOST_CONF, settings(path), HOOKS)
    assert adapted.to_do == []
    assert adapted.wrappers == {"site-prolog.sh": ""}


def test_several_programs_are_left_to_the_operator(tmp_path: Path) -> None:
    path = conf(tmp_path, "Prolog=/etc/slurm/prolog.d/*\n")
    (told,) = adapt(ROOST_CONF, settings(path), HOOKS).to_do
    assert "is no single program" in told


@pytest.mark.parametrize("code", [0, 3])
def test_the_wrapper_runs_both_and_keeps_the_sites_exit_code(tmp_path: Path, code: int) -> None:
    for name, body in (("own", f"echo own $1; exit {code}"), ("roost", "echo roost; exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    text = wrapper(str(tmp_path / "own"), str(tmp_path / "roost"))
    done = subprocess.run(["sh", "-c", text, "hook", "x"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "own x\nroost\n")


def test_the_wrapper_does_without_roost(tmp_path: Path) -> None:
    done = subprocess.run(["sh", "-c", wrapper("/bin/true", f"{tmp_path}/gone")], check=False)
    assert done.returncode == 0
