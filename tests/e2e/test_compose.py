"""Roost on two releases of Slurm, in containers: the cluster of deploy/compose as it is shipped."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.e2e.containers import SUITES, ContainerCluster, Engine, Gpus, lanes
from tests.e2e.stock_choice import KINDS, REQUESTS, gres_links

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]

NODES = dict(zip(("bridges", "cube"), KINDS, strict=True))
WHOLE_CLUSTER = ("-N2", "--gres=gpu:8")
LEASE_S = 10  # of deploy/compose/roostd.yaml
FORMS = {
    "--gres": ("--gres=gpu:2",),
    "--gpus": ("--gpus=2",),
    "--gpus-per-node": ("-N1", "--gpus-per-node=2"),
    "--gpus-per-task": ("-n2", "--gpus-per-task=1"),
    "--gpus-per-socket": ("--sockets-per-node=1", "--gpus-per-socket=2"),
    "by model": ("--gres=gpu:a100:2",),
}


@pytest.fixture(scope="module")
def clusters(engine_with_images: Engine) -> Iterator[dict[str, ContainerCluster]]:
    """All of them at once: one comes up while another is tested."""
    with ExitStack() as stack:
        yield {
            suite: stack.enter_context(ContainerCluster(engine_with_images, suite))
            for suite in SUITES
        }


@pytest.fixture(scope="module", params=list(SUITES))
def cluster(
    request: pytest.FixtureRequest, clusters: dict[str, ContainerCluster]
) -> ContainerCluster:
    cluster = clusters[request.param]
    cluster.wait_ready()
    return cluster


@pytest.fixture(scope="module")
def stock(cluster: ContainerCluster) -> Iterator[subprocess.Popen[str]]:
    with cluster.start_stock() as measurement:
        yield measurement
        measurement.kill()


@pytest.fixture(autouse=True)
def empty_queue(cluster: ContainerCluster, stock: subprocess.Popen[str]) -> Iterator[None]:
    # `stock` is asked for here so that it measures while the first tests run.
    yield
    cluster.cancel_all()


def assert_as_chosen(cluster: ContainerCluster, job_id: str, gpu_count: int) -> Gpus:
    planned, allocated = cluster.planned(job_id), cluster.allocated(job_id)
    assert planned, f"roostd chose nothing for job {job_id}"
    assert allocated == planned
    assert sum(map(len, allocated.values())) == gpu_count
    return allocated


def test_slurm_is_the_release_meant(cluster: ContainerCluster) -> None:
    told = cluster.run("controller", "scontrol", "--version")
    assert told.split()[1].startswith(cluster.slurm_release)
    assert cluster.roostctl("status")["slurm_version"].startswith(cluster.slurm_release)


def test_every_way_to_ask_gets_what_roostd_chose(cluster: ContainerCluster) -> None:
    jobs = {form: cluster.submit(*options) for form, options in FORMS.items()}
    cluster.wait_running(*jobs.values())
    for job_id in jobs.values():
        assert_as_chosen(cluster, job_id, gpu_count=2)


def test_steps_see_the_gpus_of_their_job(cluster: ContainerCluster) -> None:
    script = "srun sh -c 'echo $SLURM_STEP_GPUS' >/tmp/seen; sleep 600"
    job_id = cluster.submit("--gpus=2", "-w", "bridges", script=script)
    cluster.wait_running(job_id)
    chosen = assert_as_chosen(cluster, job_id, gpu_count=2)["bridges"]
    cluster.wait_until(
        lambda: cluster.run("bridges", "cat", "/tmp/seen", check=False).strip() != "",
        "the step printed nothing",
    )
    assert cluster.run("bridges", "cat", "/tmp/seen").strip() == ",".join(map(str, chosen))


def test_tasks_of_an_array_are_placed_one_by_one(cluster: ContainerCluster) -> None:
    array = cluster.submit("--array=0-7", "--gres=gpu:2")
    tasks = [f"{array}_{index}" for index in range(8)]
    cluster.wait_running(*tasks)
    held = [
        (node, gpu)
        for task in tasks
        for node, gpus in assert_as_chosen(cluster, task, gpu_count=2).items()
        for gpu in gpus
    ]
    assert len(set(held)) == 16


def test_two_nodes_get_the_same_indices(cluster: ContainerCluster) -> None:
    job_id = cluster.submit("-N2", "--gres=gpu:4")
    cluster.wait_running(job_id)
    allocated = assert_as_chosen(cluster, job_id, gpu_count=8)
    assert set(allocated) == set(NODES)
    assert len(set(allocated.values())) == 1


def test_exclusive_jobs_are_left_to_slurm(cluster: ContainerCluster) -> None:
    job_id = cluster.submit("--exclusive", "--gres=gpu:2")
    cluster.wait_running(job_id, timeout_s=LEASE_S - 2)
    assert len(next(iter(cluster.allocated(job_id).values()))) == 8


def test_choices_are_at_least_as_well_linked_as_plain_slurms(
    cluster: ContainerCluster, stock: subprocess.Popen[str], comparison: list[str]
) -> None:
    told, faults = stock.communicate(timeout=120)
    assert stock.returncode == 0, faults
    measured = json.loads(told)
    # Since 24.05 Slurm sorts links the wrong way round and skips the first GPU when it counts them.
    expected = {"22.05": [0, 1], "24.11": [0, 2]}[cluster.slurm_release]
    assert measured["choices"]["bridges8"]["--gres=gpu:2"] == expected
    if not comparison:
        comparison.append(f"{'slurm':8} {'node':9} {'request':14} {'plain':>22} {'roost':>22}")
    for request in REQUESTS:
        jobs = {node: cluster.submit("-n1", "-w", node, request) for node in NODES}
        cluster.wait_running(*jobs.values())
        for node, kind in NODES.items():
            count = int(request[-1])
            roost = assert_as_chosen(cluster, jobs[node], count)[node]
            plain = measured["choices"][kind][request]
            links = gres_links(kind)
            ours, theirs = lanes(links, roost), lanes(links, plain)
            comparison.append(
                f"{measured['slurm_version']:8} {kind:9} {request:14}"
                f" {_cell(plain, theirs):>22} {_cell(roost, ours):>22}"
            )
            assert ours >= theirs
        cluster.cancel_all()


def test_waiting_jobs_start_by_lease_when_roostd_is_killed(cluster: ContainerCluster) -> None:
    holder = cluster.submit(*WHOLE_CLUSTER)
    cluster.wait_running(holder)
    waiting = [cluster.submit(*options) for options in FORMS.values()]
    cluster.kill_roostd()
    try:
        cluster.run("controller", "scancel", holder)
        cluster.wait_running(*waiting, timeout_s=LEASE_S + 10)
        held = [
            (node, gpu)
            for job_id in waiting
            for node, gpus in cluster.allocated(job_id).items()
            for gpu in gpus
        ]
        assert len(held) == len(set(held)) == 2 * len(waiting)
    finally:
        cluster.start_roostd()


def test_restarted_roostd_takes_up_the_queue(cluster: ContainerCluster) -> None:
    holder = cluster.submit(*WHOLE_CLUSTER)
    cluster.wait_running(holder)
    waiting = [cluster.submit(*options) for options in FORMS.values()]
    cluster.kill_roostd()
    cluster.start_roostd()
    cluster.run("controller", "scancel", holder)
    cluster.wait_running(*waiting)
    for job_id in waiting:
        assert_as_chosen(cluster, job_id, gpu_count=2)


def test_a_lost_probe_is_noticed_and_its_node_still_used(cluster: ContainerCluster) -> None:
    cluster.wait_for_probes(2)
    cluster.kill_probe("cube")
    try:
        cluster.wait_for_probes(1)
        job_id = cluster.submit("-w", "cube", "--gres=gpu:2")
        cluster.wait_running(job_id)
        assert_as_chosen(cluster, job_id, gpu_count=2)
    finally:
        cluster.start_probe("cube")
    cluster.wait_for_probes(2)


def _cell(gpus: list[int] | tuple[int, ...], lane_count: int) -> str:
    return f"{','.join(map(str, gpus))} ({lane_count})"
