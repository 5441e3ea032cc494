"""The daemon starts whatever became of its journal, and says so."""

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.conftest import missing
from tests.daemon.running import Running, config, running

from roost_engine.domain.errors import ConfigError
from roost_engine.domain.events import Tick
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Knowledge
from roost_engine.preemption.network_preemption import PreemptionState
from roost_engine.testing import builders
from roost_formats.journal.codec import decode, encode, seal
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import Memo, RunHead, Step
from roost_proto.v1 import operator_pb2
from roostd.app import assembly
from roostd.app import daemon as daemon_module
from roostd.app.gauges import status_line
from roostd.config.config import Config
from roostd.ops.folders import FolderUnusable, StateFolderInUse, locked, make_folders
from roostd.testing.slurm_stand_in import SlurmStandIn

HEAD = RunHead(
    version="0",
    policy="heuristic",
    epoch_of_zero_s=1_700_000_000.0,
    began_s=5.0,
    config=encode(EngineConfig()),
)
KNOWN = Knowledge(preemption=PreemptionState(stops=((10.0, "main"),)))


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1"), builders.node("n2")])


class SmallDisk:
    """A file system of 2 MiB, full or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * 512):
                pass

    def free(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "state"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        missing(f"no small file system: {mounted.stderr.strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is tried again at once."""
    monkeypatch.setattr(assembly, "JOURNAL_RETRY_S", 0.05)
    monkeypatch.setattr(daemon_module, "UPKEEP_S", 0.02)


async def place_one(daemon: Running, slurm: SlurmStandIn) -> None:
    (job_id,) = slurm.submit(gpus_per_node=2)
    await daemon.until_running(job_id)


async def check_fault_is_shown(daemon: Running) -> None:
    """In the metric, in what roostctl status asks, and in the line for systemd."""
    await daemon.until(lambda: daemon.count("roost_journal_fault") == 1, "the metric")
    async with daemon.operator() as stub:
        status = await stub.GetStatus(operator_pb2.GetStatusRequest())
    assert "journal: " in status.slurm_fault
    assert str(daemon.config.paths.state_dir / FILE_NAME) in status.slurm_fault
    assert daemon.daemon.parts.recorder.fault in status_line(daemon.daemon.state)


async def wait_until_recorded(daemon: Running, slurm: SlurmStandIn) -> None:
    """Until the disk has been tried again, and what happens is on it."""
    recorder = daemon.daemon.parts.recorder
    await daemon.until(lambda: not recorder.fault and not recorder._is_torn, "recording")
    await place_one(daemon, slurm)
    ticket = recorder.append(Tick(at_s=daemon.daemon.state.clock.now_s()), ())
    await asyncio.wait_for(recorder.wait_durable(ticket), 60)


def run_count(folder: Path) -> int:
    reader = JournalReader(folder / FILE_NAME)
    runs = reader.runs()
    counts = [sum(1 for _ in reader.steps(run)) for run in runs]
    reader.close()
    assert counts[-1] > 0
    return len(runs)


async def test_a_daemon_starts_on_a_full_disk_and_records_once_there_is_space(
    slurm: SlurmStandIn, tmp_path: Path, disk: SmallDisk, soon: None
) -> None:
    disk.fill()
    with structlog.testing.capture_logs():
        async with running(slurm, config(tmp_path)) as daemon:
            await place_one(daemon, slurm)
            await check_fault_is_shown(daemon)

            disk.free()
            await wait_until_recorded(daemon, slurm)
            await daemon.until(lambda: daemon.count("roost_journal_fault") == 0, "the metric")

    assert run_count(disk.folder) == 1


@pytest.mark.parametrize("was_killed", [False, True])
async def test_on_a_full_disk_the_journal_of_before_is_read_and_nothing_in_it_is_lost(
    slurm: SlurmStandIn, tmp_path: Path, disk: SmallDisk, soon: None, was_killed: bool
) -> None:
    (tmp_path / "before").mkdir()
    journal = Journal.open(tmp_path / "before")
    journal.write([HEAD, Step(Tick(at_s=77.0), ()), Memo(encode(KNOWN))])
    if not was_killed:
        journal.close()
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):  # of a killed daemon the log has it all
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(tmp_path / "before" / name, disk.folder / name)
    if was_killed:
        journal.close()
    disk.fill()

    async with running(slurm, config(tmp_path)) as daemon:
        clock = daemon.daemon.state.clock
        assert clock.to_epoch_s(77.0) == pytest.approx(1_700_000_077.0, abs=1.0)
        await place_one(daemon, slurm)
        await check_fault_is_shown(daemon)

        disk.free()
        await wait_until_recorded(daemon, slurm)
        daemon.daemon.parts.knowledge.write()

    assert run_count(disk.folder) == 2
    assert known_in(disk.folder).preemption == KNOWN.preemption


def known_in(folder: Path) -> Knowledge:
    journal = Journal.open(folder)
    memo = journal.memo()
    journal.close()
    assert memo is not None
    return decode(memo, Knowledge)


async def test_what_was_learned_outlives_a_start_that_could_not_even_read_it(
    slurm: SlurmStandIn, tmp_path: Path, soon: None
) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    in_the_way = state / FILE_NAME
    in_the_way.mkdir(parents=True)  # root cannot open it either
    elsewhere.mkdir()
    journal = Journal.open(elsewhere)
    journal.write([HEAD, Step(Tick(at_s=77.0), ()), Memo(encode(KNOWN))])
    journal.close()

    async with running(slurm, config(tmp_path)) as daemon:
        await place_one(daemon, slurm)
        await check_fault_is_shown(daemon)
        in_the_way.rmdir()
        (elsewhere / FILE_NAME).rename(in_the_way)  # the disk is mounted at last
        await wait_until_recorded(daemon, slurm)
        daemon.daemon.parts.knowledge.write()

    assert run_count(state) == 2
    assert known_in(state).preemption == KNOWN.preemption


async def test_a_damaged_newest_record_is_put_aside_loudly_and_the_daemon_starts(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    """One flipped bit there once stopped every start."""
    state = tmp_path / "state"
    state.mkdir()
    journal = Journal.open(state)
    journal.write([HEAD, Step(Tick(at_s=77.0), ())])
    journal.close()
    file = state / FILE_NAME
    file.write_bytes(file.read_bytes().replace(b'"Tick"', b'"\xd4ick"'))

    with capture() as lines:
        async with running(slurm, config(tmp_path)) as daemon:
            await place_one(daemon, slurm)
            assert daemon.daemon.parts.recorder.fault == ""

    (logged,) = [entry for entry in lines if entry["event"] == "journal_damaged"]
    assert logged["log_level"] == "error"
    assert_holds(Path(logged["put_aside"]), b'"\xd4ick"')
    assert run_count(state) == 1


async def test_what_a_later_version_has_learned_is_put_aside_not_written_over(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    later = seal(encode(KNOWN)[8:].replace(b'"gate":', b'"gait":'))
    journal = Journal.open(state)
    journal.write([HEAD, Step(Tick(at_s=77.0), ()), Memo(later)])
    journal.close()

    with capture() as lines:
        async with running(slurm, config(tmp_path)) as daemon:
            await place_one(daemon, slurm)

    (logged,) = [entry for entry in lines if entry["event"] == "journal_newer"]
    assert logged["error"] == (
        "record cannot be read: Knowledge has no field 'gait'; written by Roost 0"
    )
    assert_holds(Path(logged["put_aside"]), b'"gait"')
    assert run_count(state) == 1


async def test_a_journal_that_breaks_in_use_is_put_aside_while_the_daemon_runs(
    slurm: SlurmStandIn, tmp_path: Path, soon: None
) -> None:
    with capture() as lines:
        async with running(slurm, config(tmp_path)) as daemon:
            await place_one(daemon, slurm)
            recorder = daemon.daemon.parts.recorder
            file = tmp_path / "state" / FILE_NAME
            await recorder._call(lambda: break_file(recorder._open_journal(), file))
            await place_one(daemon, slurm)
            await daemon.until(
                lambda: any(entry["event"] == "journal_damaged" for entry in lines), "a new file"
            )
            await wait_until_recorded(daemon, slurm)

    assert run_count(tmp_path / "state") == 1


def break_file(journal: Journal, file: Path) -> None:
    journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.write_bytes(file.read_bytes()[:4096] + b"\xff" * (file.stat().st_size - 4096))
    journal._db.execute("PRAGMA shrink_memory")


@contextlib.contextmanager
def capture() -> Iterator[list[structlog.typing.EventDict]]:
    """The log, though the daemon configures its own."""
    lines: list[structlog.typing.EventDict] = []

    def keep(
        logger: object, method: str, entry: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        lines.append({**entry, "log_level": method})
        raise structlog.DropEvent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            daemon_module, "configure_logs", lambda *_, **__: structlog.configure(processors=[keep])
        )
        yield lines
    structlog.reset_defaults()


def assert_holds(file: Path, text: bytes) -> None:
    assert text in file.read_bytes()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_state_folder_that_its_disk_does_not_take_is_no_fault_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    settings = config(tmp_path)
    refuse(monkeypatch, settings.paths.state_dir, error)

    make_folders(settings)
    with locked(settings.paths.state_dir):
        pass

    assert settings.paths.runtime_dir.is_dir()


@pytest.mark.parametrize(
    ("error", "raised"), [(errno.ENOSPC, FolderUnusable), (errno.EACCES, ConfigError)]
)
def test_without_a_runtime_folder_there_is_no_start_but_another_one_may_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, raised: type[Exception]
) -> None:
    settings: Config = config(tmp_path)
    refuse(monkeypatch, settings.paths.runtime_dir, error)

    with pytest.raises(raised, match=r"paths\.runtime_dir"):
        make_folders(settings)


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path, error: int) -> None:
    """Let the disk of one folder fail."""
    mkdir = Path.mkdir

    def fail_there(path: Path, **how: Any) -> None:
        if path == folder:
            raise OSError(error, os.strerror(error))
        mkdir(path, **how)

    monkeypatch.setattr(Path, "mkdir", fail_there)


def test_a_full_disk_takes_no_lock_file_and_a_second_daemon_is_still_refused(
    disk: SmallDisk,
) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
    with locked(disk.folder), pytest.raises(StateFolderInUse), locked(disk.folder):
        pass
