"""Slurm's commands as processes: their environment, exit codes and deadlines."""

import asyncio
from pathlib import Path

import pytest

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId
from roostd.slurm.command import IDS_PER_CALL, TASKS_PER_CALL, CommandRunner, only_gone, update_all

QUEUE, UPDATE = ("squeue",), ("scontrol", "update", "jobid=1")


def script(folder: Path, text: str, name: str = "scontrol") -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def runner(folder: Path, *, timeout_s: float = 10.0, concurrent_count: int = 4) -> CommandRunner:
    return CommandRunner(folder, folder / "slurm.conf", timeout_s, concurrent_count)


async def test_a_command_gets_its_arguments_and_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SECRET", "not for scontrol")
    script(tmp_path, 'echo "$0 $*"; echo "$TZ $SLURM_TIME_FORMAT [$SECRET] $SLURM_CONF"')

    out = await runner(tmp_path).run(UPDATE)

    assert out.splitlines() == [
        f"{tmp_path}/scontrol update jobid=1",
        f"UTC0 standard [] {tmp_path}/slurm.conf",
    ]


async def test_a_failure_carries_exit_code_and_message_unless_it_may_fail(tmp_path: Path) -> None:
    script(tmp_path, "echo out; echo 'no such job' >&2; exit 3")

    with pytest.raises(SlurmRefused) as caught:
        await runner(tmp_path).run(UPDATE)

    assert (caught.value.exit_code, caught.value.stderr) == (3, "no such job\n")
    assert caught.value.argv[1:] == UPDATE[1:]
    assert await runner(tmp_path).run(UPDATE, may_fail=True) == "out\n"


async def test_a_question_is_answered_on_stderr_and_by_any_exit_code(tmp_path: Path) -> None:
    script(tmp_path, 'echo "$(id -u) $*" >&2; exit 1', name="sbatch")
    exit_code, text = await runner(tmp_path).ask(("sbatch", "--test-only"))
    assert (exit_code, text) == (1, "0 --test-only\n")


async def test_a_command_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlurmRefused, match="cannot be run: No such file or directory") as caught:
        await runner(tmp_path).run(UPDATE)
    assert caught.value.exit_code == 127


async def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script(tmp_path, f"sleep 77 & echo $! > {tmp_path}/child; wait")

    noted = tmp_path / "child"
    for timeout_s in (1.0, 5.0, 25.0):  # a busy machine may not have started its child yet
        with pytest.raises(SlurmTimeout):
            await runner(tmp_path, timeout_s=timeout_s).run(UPDATE)
        if noted.exists() and noted.read_text():
            break

    child = int(noted.read_text())
    async with asyncio.timeout(60):
        while is_alive(child):  # noqa: ASYNC110  the kernel reports a child to its parent only
            await asyncio.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_no_more_commands_run_at_a_time_than_allowed(tmp_path: Path) -> None:
    # Each notes how many run when it begins; mkdir is atomic.
    script(
        tmp_path,
        f"cd {tmp_path}; mkdir running.$$; ls -d running.* | wc -l; sleep 0.05; rmdir running.$$",
        "squeue",
    )
    one_at_a_time = runner(tmp_path, concurrent_count=1)

    counts = await asyncio.gather(*(one_at_a_time.run(QUEUE) for _ in range(4)))

    assert [int(count) for count in counts] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("stderr", "gone"),
    [
        ("slurm_load_jobs error: Invalid job id specified\n", True),
        ("Invalid job id specified\n\nJob/step already completing or completed\n", True),
        ("Invalid job id specified\nUnable to contact slurm controller\n", False),
        ("1_0-3: Job has already finished\n1_4: Job is no longer pending execution\n", True),
        ("1_0-3: Job has already finished\n1_48-399: No error\n", True),
        ("Access/permission denied\n", False),
        ("\n", False),
    ],
)
def test_only_messages_of_jobs_that_ended_count_as_gone(stderr: str, gone: bool) -> None:
    assert only_gone(SlurmRefused(UPDATE, 1, stderr)) is gone


async def calls_for(job_ids: list[JobId]) -> list[list[str]]:
    calls: list[list[str]] = []

    async def note(argv: tuple[str, ...]) -> str:
        calls.append(list(argv))
        return ""

    await update_all(note, job_ids, tuple)
    return calls


async def test_many_jobs_are_updated_in_several_calls() -> None:
    job_ids = [JobId(str(number)) for number in range(2 * IDS_PER_CALL + 1)]
    calls = await calls_for(job_ids)
    assert list(map(len, calls)) == [IDS_PER_CALL, IDS_PER_CALL, 1]
    assert [job_id for call in calls for job_id in call] == job_ids


async def test_the_tasks_of_an_array_are_updated_in_one_call() -> None:
    singles = [JobId(str(number)) for number in range(100, 110)]
    tasks = [JobId(f"7_{task}") for task in range(IDS_PER_CALL + 50)]
    assert list(map(set, await calls_for([*singles, *tasks]))) == [set(singles), set(tasks)]
    few = [JobId(f"8_{task}") for task in range(20)]
    (call,) = await calls_for([*singles, *few])
    assert set(call) == {*singles, *few}


async def test_the_tasks_of_an_array_are_split_only_where_their_list_is_too_long() -> None:
    """slurmctld would give each task of a part a record of its own."""
    many = [JobId(f"9_{task}") for task in range(2 * TASKS_PER_CALL)]
    assert await calls_for(many) == [many]
    apart = [JobId(f"9_{task}") for task in range(0, 3_900_000, 300)]
    assert list(map(len, await calls_for(apart))) == [TASKS_PER_CALL, 3_000]
