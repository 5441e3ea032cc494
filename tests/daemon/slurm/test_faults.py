"""A real Slurm whose commands fail, hang or lose their answer: the job is whole all the same."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import LocalSlurmFactory
from tests.daemon.slurm.slurm_clusters import LEASE_S, PLAN, gpus, placement, started
from tests.e2e.ledger import end_jobs

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text import commands
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import JobDetail, parse_jobs
from roost_slurm.text.squeue import SEPARATOR, parse_queue
from roost_slurm.text.stamp import parse_stamp
from roostd.slurm.command import CommandRunner
from roostd.slurm.slurm_cli import SlurmCli

pytestmark = pytest.mark.slurm

WRAPPER = """#!/bin/sh
# Does as FOLDER/mode says with `scontrol update`; other commands go through.
[ "$1" = update ] || exec /usr/bin/scontrol "$@"
case $(cat FOLDER/mode) in
fail) echo "slurm_update error: Unable to contact slurm controller" >&2; exit 1;;
hang) sleep 77;;
deaf) /usr/bin/scontrol "$@"; sleep 77;;
race) /usr/bin/scontrol $(cat FOLDER/first); exec /usr/bin/scontrol "$@";;
*) exec /usr/bin/scontrol "$@";;
esac
"""
UPDATE_S = {"hang": 1.0, "deaf": 5.0}  # until roostd gives up; a deaf one has done it by then


@pytest.fixture(scope="module")
def cluster(local_slurm_factory: LocalSlurmFactory) -> LocalSlurm:
    return local_slurm_factory(PLAN)


@pytest.fixture
def real(cluster: LocalSlurm) -> Iterator[LocalSlurm]:
    yield cluster
    end_jobs(cluster)  # the GPUs are wanted by the next test


@pytest.fixture
def wrapped(tmp_path: Path, real: LocalSlurm) -> "Wrapped":
    return Wrapped(tmp_path, real)


class Wrapped:
    """A SlurmCli whose scontrol misbehaves on demand."""

    def __init__(self, folder: Path, slurm: LocalSlurm) -> None:
        self._mode_file = folder / "mode"
        wrapper = folder / "scontrol"
        wrapper.write_text(WRAPPER.replace("FOLDER", str(folder)))
        wrapper.chmod(0o755)
        (folder / "squeue").symlink_to("/usr/bin/squeue")
        conf = slurm.folder.slurm_conf
        self.port = SlurmCli(folder, conf, lease_s=lambda: LEASE_S)
        self.port._runner = self._runner = Impatient(folder, conf, 60.0, 4)
        self.be("good")

    def be(self, mode: str) -> None:
        self._mode_file.write_text(mode)
        self._runner.update_s = UPDATE_S.get(mode, 60.0)

    def race(self, first: str) -> None:
        """Have a user's command of scontrol come just before each update."""
        (self._mode_file.parent / "first").write_text(first)
        self.be("race")


class Impatient(CommandRunner):
    """Waits for the answer to an update for a while of its own."""

    update_s = 60.0

    async def _finish(self, prefix: Argv, argv: Argv) -> tuple[str, str, int, Argv]:
        self._timeout_s = self.update_s if argv[1] == "update" else 60.0
        return await super()._finish(prefix, argv)


@pytest.mark.parametrize(("mode", "error"), [("fail", SlurmRefused), ("hang", SlurmTimeout)])
async def test_pin_that_did_not_happen_leaves_the_job_whole(
    real: LocalSlurm, wrapped: Wrapped, mode: str, error: type[Exception]
) -> None:
    job_id = JobId(real.submit("--gres=gpu:2"))
    before = request_of(real, job_id)
    wrapped.be(mode)
    with pytest.raises(error):
        await wrapped.port.pin(job_id, placement("n1", 3, 4))
    assert request_of(real, job_id) == before
    wrapped.be("good")
    await wrapped.port.pin(job_id, placement("n1", 3, 4))
    assert gpus(await started(wrapped.port, job_id)) == {"n1": (3, 4)}


async def test_pin_that_happened_although_no_answer_came_counts(
    real: LocalSlurm, wrapped: Wrapped
) -> None:
    job_id = JobId(real.submit("--gpus=2"))
    wrapped.be("deaf")
    await wrapped.port.pin(job_id, placement("n2", 0, 6))
    assert gpus(await started(wrapped.port, job_id)) == {"n2": (0, 6)}


async def test_a_job_changed_since_the_last_poll_is_not_placed_by_its_earlier_request(
    real: LocalSlurm, wrapped: Wrapped
) -> None:
    job_id = JobId(real.submit("--gres=gpu:2"))
    await wrapped.port.queue()
    real.run("scontrol", "update", f"jobid={job_id}", "ExcNodeList=n1")  # squeue has no such column
    with pytest.raises(SlurmRefused, match="changed what it asks"):
        await wrapped.port.pin(job_id, placement("n1", 3, 4))
    seen = (await wrapped.port.queue()).details[int(job_id)]
    assert seen.excluded_nodes == "n1"
    await wrapped.port.pin(job_id, placement("n2", 3, 4))
    assert gpus(await started(wrapped.port, job_id)) == {"n2": (3, 4)}


async def test_a_begin_that_a_user_sets_later_is_the_users_own(real: LocalSlurm) -> None:
    port = SlurmCli(conf=real.folder.slurm_conf, lease_s=lambda: LEASE_S)
    job_id = JobId(real.submit("--gres=gpu:2"))
    assert await begin_of(port, job_id) is None
    early_s = int(time.time()) + 2 * LEASE_S
    real.run("scontrol", "update", f"jobid={job_id}", f"StartTime=now+{2 * LEASE_S}")
    late_s = int(time.time()) + 2 * LEASE_S
    await port.renew([job_id], LEASE_S)
    assert early_s - 1 <= (await begin_of(port, job_id) or 0) <= late_s + 1
    real.run("scontrol", "update", f"jobid={job_id}", f"StartTime=now+{LEASE_S}")
    assert await begin_of(port, job_id) is None


async def test_a_begin_that_comes_between_the_look_and_the_renewal_is_lost_and_kept_when_repeated(
    real: LocalSlurm, wrapped: Wrapped
) -> None:
    """Slurm has no conditional update; docs/delay.md says what that means for users."""
    job_id = JobId(real.submit("--gres=gpu:2"))
    later = f"update jobid={job_id} StartTime=now+{4 * LEASE_S}"
    wrapped.race(later)
    await wrapped.port.renew([job_id], LEASE_S)
    wrapped.be("good")
    assert await begin_of(wrapped.port, job_id) is None
    real.run("scontrol", *later.split())
    later_s = int(time.time()) + 4 * LEASE_S
    await wrapped.port.renew([job_id], LEASE_S)
    assert (await begin_of(wrapped.port, job_id) or 0) == pytest.approx(later_s, abs=2)


async def begin_of(port: SlurmCli, job_id: JobId) -> int | None:
    jobs = (await port.queue()).jobs
    stamp = parse_stamp(next(job for job in jobs if str(job.number) == job_id).admin_comment)
    assert stamp is not None
    return stamp.begin_epoch_s


class Scripted:
    """Commands whose scontrol shows texts, and counts how often it is asked for one job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        scontrol = "\n".join(
            [
                "#!/bin/sh",
                f'[ "$5" = "" ] && exec cat {folder}/all',
                f"echo $5 >> {folder}/asked",
                f"exec cat {folder}/$5",
            ]
        )
        for name, text in (("scontrol", scontrol), ("squeue", f"#!/bin/sh\ncat {folder}/queue")):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.port = SlurmCli(folder, queue_interval_s=0.0)

    def show(self, records: dict[int, str], queue: str) -> None:
        (self._folder / "queue").write_text(queue)
        (self._folder / "all").write_text("".join(records.values()))
        for number, text in records.items():
            (self._folder / str(number)).write_text(text)

    def asked(self) -> list[int]:
        """Which jobs were asked for by themselves, since the last time."""
        file = self._folder / "asked"
        numbers = [int(line) for line in file.read_text().split()] if file.exists() else []
        file.unlink(missing_ok=True)
        return numbers


async def test_jobs_with_imitated_records_keep_their_details(
    real: LocalSlurm, tmp_path: Path
) -> None:
    """More forged records than one poll reads singly hide no other job for long."""
    job_id = int(real.submit("--gres=gpu:1"))
    record = real.run("scontrol", "-d", "-o", "show", "job", str(job_id))
    line = next(
        line
        for line in real.run(*commands.queue()).splitlines(keepends=True)
        if parse_queue(line).jobs[0].number == job_id
    )
    real.run("scancel", str(job_id))
    forgers, victims = range(1001, 1031), range(2001, 2006)
    own = {n: record.replace(f"JobId={job_id} ", f"JobId={n} ") for n in (*forgers, *victims)}
    imitations = "".join(f"\nJobId={number} JobName=x" for number in victims)
    forged = {n: own[n].replace("JobName=", f"JobName={imitations} ", 1) for n in forgers}
    fields = line.split(SEPARATOR)[2:]
    queue = "".join(SEPARATOR.join([str(n), str(n), *fields]) for n in own)
    scripted = Scripted(tmp_path)
    scripted.show(own | forged, queue)

    polls = [await scripted.port.queue() for _ in range(3)]

    assert set(polls[-1].details) >= set(victims)
    assert 0 < len(scripted.asked()) <= 3 * 12


async def test_raised_limit_of_an_array_is_seen(
    real: LocalSlurm, wrapped: Wrapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = JobId(real.submit("--gres=gpu:1", "--array=0-5%1"))
    assert (await wrapped.port.queue()).details[int(job_id)].task_limit == 1
    real.run("scontrol", "update", f"jobid={job_id}", "ArrayTaskThrottle=4")
    monkeypatch.setattr("roostd.slurm.queue._LIMIT_AGE_S", 0.0)
    assert (await wrapped.port.queue()).details[int(job_id)].task_limit == 4


async def test_killed_command_leaves_no_process(real: LocalSlurm, wrapped: Wrapped) -> None:
    job_id = JobId(real.submit("--gres=gpu:1"))
    wrapped.be("hang")
    with pytest.raises(SlurmTimeout):
        await wrapped.port.renew([job_id], 100)
    assert leftovers(real) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.004, 0.006, 0.01, 0.02])
async def test_daemon_killed_while_it_pins_leaves_the_job_whole_or_pinned(
    real: LocalSlurm, delay_s: float
) -> None:
    job_id = JobId(real.submit("--gres=gpu:2"))
    script = (
        "import asyncio, pathlib, sys\n"
        "from roostd.slurm.slurm_cli import SlurmCli\n"
        "from tests.daemon.slurm.slurm_clusters import placement\n"
        "port = SlurmCli(conf=pathlib.Path(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "asyncio.run(port.pin(sys.argv[2], placement('n3', 5, 6)))\n"
        "print('pinned', flush=True)\n"
    )
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(real.folder.slurm_conf), job_id),
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon.stdout is not None
    assert await daemon.stdout.readline() == b"ready\n"
    await asyncio.sleep(delay_s)
    if daemon.returncode is None:
        os.kill(daemon.pid, signal.SIGKILL)
    await daemon.wait()
    port = SlurmCli(conf=real.folder.slurm_conf)
    await asyncio.sleep(0.1)  # an update under way is carried through by its own process
    asked = real.show_job(job_id)
    if "TresPerNode=gres:gpu:2" in asked or "TresPerNode=gres/gpu:2" in asked:
        await port.release([job_id])
    shares = await started(port, job_id)
    assert [len(share.gpu_indices) for share in shares] == [2]


async def test_a_job_starts_when_its_lease_ends_without_a_daemon(
    real: LocalSlurm, wrapped: Wrapped
) -> None:
    job_id = JobId(real.submit("--gres=gpu:2"))
    await wrapped.port.renew([job_id], 1)
    shares = await started(wrapped.port, job_id)
    assert [len(share.gpu_indices) for share in shares] == [2]


async def test_slurmctld_restarts_between_pin_and_start(real: LocalSlurm, wrapped: Wrapped) -> None:
    job_id = JobId(real.submit("--gres=gpu:2"))
    await wrapped.port.pin(job_id, placement("n4", 1, 7))
    await asyncio.to_thread(real.restart_controller)
    assert gpus(await started(wrapped.port, job_id)) == {"n4": (1, 7)}


async def test_absent_programs_are_named(tmp_path: Path) -> None:
    with pytest.raises(SlurmRefused, match="cannot be run"):
        await SlurmCli(tmp_path).ping()


async def test_dumps_keep_their_distance(real: LocalSlurm) -> None:
    port = SlurmCli(conf=real.folder.slurm_conf, queue_interval_s=0.2)
    began_s = time.monotonic()
    await port.queue()
    await asyncio.gather(*(port.queue() for _ in range(5)))
    assert time.monotonic() - began_s >= 0.2


def request_of(real: LocalSlurm, job_id: JobId) -> JobDetail:
    """What a job asks for, without the reason that the scheduler last had for its waiting."""
    return replace(parse_jobs(real.show_job(job_id))[int(job_id)], reason="")


def leftovers(real: LocalSlurm) -> list[int]:
    """Processes of hanging commands that outlived their deadline."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and _read(entry / "cmdline") == "sleep\x0077\x00"
        and str(real.folder.slurm_conf) in _read(entry / "environ")
    ]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
