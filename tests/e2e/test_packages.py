"""The Debian packages on clean machines, and every command of docs/install.md, while jobs run."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.containers import SUITES, ContainersFailed, Engine
from tests.e2e.install_page import run
from tests.e2e.package_site import CONTROLLER, MACHINES, NODES, PackageSite

pytestmark = [pytest.mark.compose, pytest.mark.apart, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=list(SUITES))
def site(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PackageSite]:
    engine.build([request.param], "clean")
    engine.run(str(ROOT / "deploy" / "debian" / "build.sh"), request.param)
    folder = tmp_path_factory.mktemp("packages")
    folder.chmod(0o755)
    for package in (ROOT / "dist" / request.param).glob("*.deb"):
        shutil.copy(package, folder)
    wheels = ROOT / "build" / "deb" / request.param / "wheels"
    shutil.copy(next(wheels.glob("[Pp]y[Yy][Aa][Mm][Ll]-*.whl")), folder / "yaml.zip")
    with PackageSite(engine, request.param, folder) as site:
        yield site


@pytest.fixture(scope="module")
def jobs(site: PackageSite) -> dict[str, str]:
    """Jobs that run and wait throughout, by what they are."""
    found = {
        "typed": site.submit("-w gpu1 --gres=gpu:a100:4"),
        "plain": site.submit("-w gpu1 --gres=gpu:2"),
    }
    site.wait_running(*found.values())
    return found | {"waits": site.submit("-w gpu1 --gres=gpu:4")}


def are_as_before(site: PackageSite, jobs: dict[str, str]) -> bool:
    """Whether the jobs that ran still run and the one that waited still waits."""
    states = site.states()
    expected = {"typed": "RUNNING", "plain": "RUNNING", "waits": "PENDING"}
    return all(
        states[jobs[name]][0] == state and "BadConstraints" not in states[jobs[name]][1]
        for name, state in expected.items()
        if name in jobs
    )


def test_ten_commands_lead_to_shadow_and_no_job_notices(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    started_s = time.monotonic()
    assert run(site, "shadow") <= 10
    assert time.monotonic() - started_s < 15 * 60
    assert are_as_before(site, jobs)
    site.wait_until(lambda: probe_count(site) == 2, "the probes do not report")


def probe_count(site: PackageSite) -> int:
    return int(json.loads(site.shell(CONTROLLER, "roostctl status --json"))["probe_count"])


def test_units_are_as_the_packages_install_them(site: PackageSite) -> None:
    shown = site.shell(CONTROLLER, "systemctl show -P FragmentPath roostd roost-unpin.timer")
    assert [path.removeprefix("/usr") for path in shown.split()] == [
        "/lib/systemd/system/roostd.service",
        "/lib/systemd/system/roost-unpin.timer",
    ]
    # Only what the page enables is enabled.
    enabled = site.shell(CONTROLLER, "systemctl is-enabled roost-unpin.timer", check=False)
    assert enabled.strip() == "disabled"


def test_the_packages_of_a_checkout_have_a_version_of_their_own(site: PackageSite) -> None:
    """apt left out a package of the installed version: roostd's new library met the old daemon."""
    names = "roost-common roost-tools roost-controller"
    shown = site.shell(CONTROLLER, f"dpkg-query -W -f '${{Version}} ' {names}").split()
    assert len(shown) == 3
    assert len(set(shown)) == 1
    assert re.fullmatch(r"[0-9.]+\+git[0-9]{14}-1~[a-z]+", shown[0])


def test_manual_pages_and_completion_are_there(site: PackageSite) -> None:
    for page in ("roostctl", "roost-sim", "roost-slurm", "roostd"):
        text = site.shell(CONTROLLER, f"zcat /usr/share/man/man?/{page}.?.gz")
        assert page.replace("-", "\\-") in text
    site.shell(CONTROLLER, "bash -n /usr/share/bash-completion/completions/roostctl")
    site.shell(CONTROLLER, "logrotate --debug /etc/logrotate.d/roost")
    for machine in MACHINES:
        site.shell(machine, "test -f /usr/share/doc/roost/docs/install.md")
        assert "version" in site.shell(machine, "roost-slurm --version")
    for node in NODES:
        assert site.shell(node, "stat -c '%U %a' /run/roost/job-map").strip() == "root 755"


def test_the_doctor_finds_no_problem_in_shadow(site: PackageSite) -> None:
    for machine in (CONTROLLER, *NODES):
        told = json.loads(site.shell(machine, "roost-slurm doctor --json", check=False))
        assert [row for row in told["findings"] if row["level"] == "problem"] == []
        assert told["roles"] == (["controller"] if machine == CONTROLLER else ["node"])


def test_with_certificates_the_probes_report_again_and_none_gets_in_without(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    run(site, "certificates")
    site.wait_until(lambda: "UNAVAILABLE" in plain_call(site), "roostd still takes plain calls")
    site.wait_until(lambda: probe_count(site) == 0, "a probe without certificate is believed")
    for node in NODES:
        run(site, "node-certificate", node)
    site.wait_until(lambda: probe_count(site) == 2, "the probes do not report")
    for node in NODES:
        key = f"/etc/roost/tls/{node}.key"
        assert site.shell(node, f"stat -c '%U %G %a' {key}").strip() == "root roost-tls 640"
    assert are_as_before(site, jobs)


def plain_call(site: PackageSite) -> str:
    """What a probe without a certificate is told."""
    call = (
        "import grpc; from roost_proto.v1 import telemetry_pb2 as pb, telemetry_pb2_grpc as rpc\n"
        "channel = grpc.insecure_channel('control1:7471')\n"
        "try: list(rpc.TelemetryStub(channel).Stream(iter([pb.ProbeMessage()]), timeout=10))\n"
        "except grpc.RpcError as error: print(error.code())"
    )
    return site.shell("gpu1", f'/opt/roost/bin/python -c "{call}"')


def test_preparing_slurm_keeps_the_sites_scripts_and_its_jobs(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    run(site, "prepare")
    assert are_as_before(site, jobs)
    job = site.submit("-w gpu2 --gres=gpu:a100:1")
    site.wait_running(job)
    shown = site.shell(CONTROLLER, f"scontrol show job {job}")
    assert "Comment=seen_by_the_site" in shown.replace("seen by the site", "seen_by_the_site")
    assert "Features=a100" in shown or "TresPerNode=gres" in shown
    assert job in site.shell("gpu2", "cat /var/log/site-prolog")
    site.shell(CONTROLLER, f"scancel {job}")


def test_an_empty_node_changes_while_the_other_runs_jobs(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    site.wait_until(lambda: site.node_states()["gpu2"] == "idle", "gpu2 is not empty")
    with pytest.raises(ContainersFailed, match="busy"):
        site.shell(CONTROLLER, "roost-slurm migrate --step gpu1")
    run(site, "node", "gpu2")
    assert are_as_before(site, jobs)
    site.wait_running(site.submit("-w gpu2 --gres=gpu:2", seconds=1))


def test_the_last_node_changes_when_its_jobs_have_ended(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    # The waiting job asks for this node: it starts once it fits, and ends like the others.
    site.shell(CONTROLLER, f"scancel {jobs['typed']}")
    site.wait_running(jobs["waits"])
    site.shell(CONTROLLER, f"scancel {jobs['plain']} {jobs['waits']}")
    site.wait_until(lambda: site.node_states()["gpu1"] == "idle", "gpu1 is not empty")
    keeps = site.submit("-w gpu2 --gres=gpu:2")
    site.wait_running(keeps)
    run(site, "node", "gpu1")
    site.shell(CONTROLLER, "roost-slurm migrate --check")
    assert site.states()[keeps][0] == "RUNNING"
    jobs.clear()
    jobs["plain"] = keeps


def test_enforce_places_jobs_on_the_chosen_gpus_and_kills_none(
    site: PackageSite, jobs: dict[str, str]
) -> None:
    run(site, "enforce")
    site.wait_until(
        lambda: "enforce *" in site.shell(CONTROLLER, "cat /run/roost/heartbeat"), "no enforce"
    )
    job = site.submit("--gres=gpu:a100:2")
    site.wait_running(job)
    planned = json.loads(site.shell(CONTROLLER, f"roostctl job {job} --json"))["job"]["planned"]
    shown = site.shell(CONTROLLER, f"scontrol -d show job {job}")
    ((place,),) = (planned,)
    assert f"Nodes={place['node']}" in shown
    for index in place["gpu_indices"]:
        assert f"gpu:g{index}:1(IDX:{index})" in shown
    assert are_as_before(site, jobs)
    if place["node"] == "gpu2":
        jobs["typed"] = job
    else:  # the next test needs an empty node
        site.shell(CONTROLLER, f"scancel {job}")


def test_an_empty_node_gets_the_sites_types_back(site: PackageSite, jobs: dict[str, str]) -> None:
    run(site, "back")
    site.wait_until(lambda: "idle" in site.node_states().values(), "no node is empty")
    empty = [node for node, state in site.node_states().items() if state == "idle"]
    run(site, "node", empty[0], back=" --back")
    assert "gpu:a100:8" in site.shell(CONTROLLER, f"scontrol show node {empty[0]}")
    site.wait_running(site.submit(f"-w {empty[0]} --gres=gpu:2", seconds=1))
    assert are_as_before(site, jobs)


def test_removed_no_job_notices(site: PackageSite, jobs: dict[str, str]) -> None:
    job = site.submit("--gres=gpu:2")
    site.wait_running(job)
    assert are_as_before(site, jobs)
    run(site, "remove")
    assert are_as_before(site, jobs)
    assert site.states()[job][0] == "RUNNING"
    left = site.shell(CONTROLLER, "ls -d /etc/roost /opt/roost /usr/bin/roost* || :", check=False)
    assert left == ""
    script = site.shell(CONTROLLER, "cat /etc/slurm/job_submit.lua")
    assert "roost" not in script
    site.wait_running(site.submit("--gres=gpu:1", seconds=60))
