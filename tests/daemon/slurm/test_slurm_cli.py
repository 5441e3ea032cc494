"""SlurmCli: which commands it runs, how many, and what it makes of their answers."""

import asyncio
import re
import time
from collections import deque
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from tests.conftest import LocalSlurmFactory
from tests.daemon.slurm.slurm_clusters import allocation, placement
from tests.slurm_glue.recorded import numbers, read

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId, NodeName
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.site_plan import PowerSavingPlan
from roost_slurm.text import commands as argvs
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import parse_jobs
from roostd.slurm import command, slurm_cli
from roostd.slurm.port import JobNotWaiting, NodeClosed, NotDue
from roostd.slurm.queue import with_whole_records
from roostd.slurm.request import check_due
from roostd.slurm.slurm_cli import SlurmCli

RELEASE = "24.11"
NUMBERS = numbers(RELEASE)
RECORDS = {
    line.partition(" ")[0].removeprefix("JobId="): line
    for line in reversed(read(RELEASE, "show_job.txt").splitlines())
}
# A job that waits under a lease: --gres=gpu:2 --begin=2030-01-01.
LEASED = JobId(str(NUMBERS["gres"]))
AFTER_BEGIN_S = 2e9
HOST = JobId(str(NUMBERS["untyped"]))  # runs
LOST = SlurmTimeout(("scontrol",), 1.0)
GONE = SlurmRefused(("scontrol",), 1, "slurm_load_jobs error: Invalid job id specified")
FILES = {
    "version": "version.txt",
    "queue": "squeue.txt",
    "config": "show_config.txt",
    "nodes": "show_nodes.txt",
    "topology": "show_topology.txt",
    "jobs": "show_job.txt",
}

Answer: TypeAlias = str | Exception


class RecordedCommands:
    """Stands for CommandRunner.run: answers with recorded output unless told otherwise.

    Attributes:
        asked: the kind of every command that was run: "queue", "job 6", "update", ...
        updates: the values that each update sets.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.updates: list[dict[str, str]] = []
        self._answers: dict[str, deque[Answer]] = {}

    def answer(self, kind: str, *answers: Answer) -> None:
        """Answer the next commands of a kind so, in turn; the last answer stays."""
        self._answers[kind] = deque(answers)

    async def run(self, argv: Argv, *, may_fail: bool = False) -> str:
        """See CommandRunner."""
        kind = self._kind(argv)
        self.asked.append(kind)
        if kind == "update":
            self.updates.append(dict(word.partition("=")[::2] for word in argv[2:]))
        await asyncio.sleep(0)
        answers = self._answers.get(kind) or deque([self._recorded(kind)])
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @staticmethod
    def _kind(argv: Argv) -> str:
        words = [word for word in argv if not word.startswith("-")]
        if argv[0] == "squeue":
            return "queue"
        if argv[0] == "sinfo":
            return "node_states"
        if words[1:2] == ["show"]:
            return " ".join(words[2:])
        return words[1] if words[1:] else "version"

    @staticmethod
    def _recorded(kind: str) -> str:
        if kind.startswith("job "):
            return RECORDS[kind.partition(" ")[2]]
        return read(RELEASE, FILES[kind]) if kind in FILES else ""


@pytest.fixture
def commands() -> RecordedCommands:
    return RecordedCommands()


@pytest.fixture
def port(commands: RecordedCommands) -> SlurmCli:
    port = SlurmCli(queue_interval_s=0.0)
    port._run = commands.run
    return port


@pytest.mark.parametrize("answer", ["Slurmctld(primary) at ctl is DOWN", ""])
async def test_slurm_answers_only_where_a_controller_is_up(
    commands: RecordedCommands, port: SlurmCli, answer: str
) -> None:
    commands.answer("ping", "Slurmctld(primary) at ctl is UP", answer)
    await port.ping()
    with pytest.raises(SlurmRefused):
        await port.ping()


async def test_the_release_is_asked_for_once(commands: RecordedCommands, port: SlurmCli) -> None:
    assert str(await port.version()).startswith(RELEASE)
    assert (await port.traits()).gres_prefix == "gres/"
    assert commands.asked == ["version"]


async def test_a_release_that_cannot_be_read_is_an_error_of_slurm_and_asked_for_again(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    commands.answer("version", "it depends", read(RELEASE, "version.txt"))
    with pytest.raises(SlurmRefused, match="names no Slurm release"):
        await port.version()
    assert str(await port.version()).startswith(RELEASE)


async def test_a_sites_rules_are_asked_for_through_the_same_commands(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    commands.answer("config", read(RELEASE, "site_config.txt"))
    commands.answer("partitions", read(RELEASE, "site_partitions.txt"))
    commands.answer(
        "qos format=Name,Preempt,PreemptMode,Flags,LimitFactor,PreemptExemptTime", "high|low||||\n"
    )
    rules = await port.rules()
    assert await port.rules() is rules
    assert rules.partitions["high"].qos == "part"
    assert rules.qos_traits["high"].preempts == {"low"}
    assert commands.asked.count("partitions") == 1


async def test_nodes_without_gpus_are_left_out(commands: RecordedCommands, port: SlurmCli) -> None:
    assert [node.spec.gpu_count for node in await port.nodes()] == [8, 8, 4]

    without = re.sub(r"(?<=Gres=)\S+:g7:1", "(null)", read(RELEASE, "show_nodes.txt"))
    commands.answer("nodes", without)

    assert [node.spec.gpu_count for node in await port.nodes()] == [4]


@pytest.mark.parametrize("text", ["", "\n", "\x7fELF\x00", "slurm_load_node error\n"])
async def test_an_answer_that_is_none_is_a_fault_of_slurm(
    commands: RecordedCommands, port: SlurmCli, text: str
) -> None:
    commands.answer("nodes", text)
    commands.answer("config", text)
    with pytest.raises(SlurmRefused, match="no node in it"):
        await port.nodes()
    with pytest.raises(SlurmRefused, match="no ClusterName in it"):
        await port.settings()


async def test_a_cluster_may_have_no_nodes_yet(commands: RecordedCommands, port: SlurmCli) -> None:
    commands.answer("nodes", "No nodes in the system\n")
    assert await port.nodes() == ()


async def test_calls_that_come_together_share_one_dump_and_a_later_call_gets_a_new_one(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    first, *others = await asyncio.gather(*(port.queue() for _ in range(5)))
    assert all(other is first for other in others)
    assert commands.asked.count("queue") == 1

    before_s = time.time()
    assert (await port.queue()).at_epoch_s >= before_s
    assert commands.asked.count("queue") == 2


async def test_a_call_that_is_cancelled_takes_the_dump_from_no_other(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    leaving, staying = asyncio.create_task(port.queue()), asyncio.create_task(port.queue())
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).jobs
    assert commands.asked.count("queue") == 1


async def test_a_failed_dump_is_told_to_all_callers_and_the_next_one_is_new(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    commands.answer("queue", LOST, read(RELEASE, "squeue.txt"))
    answers = await asyncio.gather(port.queue(), port.queue(), return_exceptions=True)
    assert list(answers) == [LOST, LOST]
    assert (await port.queue()).details[int(LEASED)].tres == {"TresPerNode": "gres/gpu:2"}


async def test_output_without_any_record_is_an_error_and_not_an_empty_queue(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    commands.answer("queue", "slurm_load_jobs: try again\n", "")
    with pytest.raises(SlurmRefused, match="no line of 1 is a record"):
        await port.queue()
    assert (await port.queue()).jobs == ()


@pytest.mark.parametrize(("name", "state"), [("typed", "running"), ("held", "held")])
async def test_a_job_that_does_not_wait_is_not_pinned(
    commands: RecordedCommands, port: SlurmCli, name: str, state: str
) -> None:
    with pytest.raises(JobNotWaiting, match=f"is {state}, not waiting"):
        await port.pin(JobId(str(NUMBERS[name])), placement("n1", 2, 3))
    assert commands.updates == []


@pytest.mark.parametrize(
    ("reason", "comment", "is_unpinned"),
    [
        ("BadConstraints", "roost:lease was=TresPerNode:gres/gpu:2", True),
        ("JobHeldUser", "roost:lease was=TresPerNode:gres/gpu:2", False),
        ("BadConstraints", "roost:lease", False),  # the user's own request
    ],
)
async def test_a_job_that_slurm_holds_for_its_pin_is_unpinned(
    commands: RecordedCommands, port: SlurmCli, reason: str, comment: str, is_unpinned: bool
) -> None:
    """The types of its nodes changed between pin and start."""
    record = re.sub(r"Priority=\d+", "Priority=0", RECORDS[LEASED])
    record = re.sub(r"Reason=\S+", f"Reason={reason}", record)
    record = record.replace("AdminComment=roost:lease", f"AdminComment={comment}")
    commands.answer(f"job {LEASED}", record)
    if is_unpinned:
        assert await port.unpin(LEASED, 60) == reason
        assert commands.updates[0]["StartTime"] == "now+60"
        return
    with pytest.raises(JobNotWaiting, match="is held, not waiting"):
        await port.unpin(LEASED, 60)
    assert commands.updates == []


@pytest.mark.parametrize(("owner", "is_mine"), [("1f", True), ("2e", False)])
async def test_a_job_that_another_roostd_has_leased_is_never_changed(
    commands: RecordedCommands, owner: str, is_mine: bool
) -> None:
    port = SlurmCli(queue_interval_s=0.0, owner=owner)
    port._run = commands.run
    leased = RECORDS[LEASED].replace(
        "AdminComment=roost:lease", "AdminComment=roost:lease owner=1f"
    )
    commands.answer(f"job {LEASED}", *[leased] * 3)
    if is_mine:
        await port.advise(LEASED, "n1")
        assert commands.updates[0]["AdminComment"].startswith("roost:lease owner=1f begin=")
        return
    for change in (
        port.advise(LEASED, "n1"),
        port.pin(LEASED, placement("n1", 2, 3)),
        port.unpin(LEASED, 60),
    ):
        with pytest.raises(JobNotWaiting, match="leased by another roostd"):
            await change
    assert commands.updates == []


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN*", "MIXED+DRAIN"])
async def test_a_node_that_was_closed_since_the_decision_gets_no_pin(
    commands: RecordedCommands, port: SlurmCli, state: str
) -> None:
    port._wall_clock = lambda: AFTER_BEGIN_S
    shown = read(RELEASE, "show_nodes.txt").split("\n")[0]
    commands.answer("nodes n1", shown, re.sub(r"State=\S+", f"State={state}", shown))
    await port.pin(LEASED, placement("n1", 2, 3))
    with pytest.raises(NodeClosed, match="n1"):
        await port.pin(LEASED, placement("n1", 2, 3))
    assert len(commands.updates) == 1


async def test_a_job_that_slurm_forgot_is_gone(commands: RecordedCommands, port: SlurmCli) -> None:
    commands.answer(f"job {LEASED}", GONE)
    with pytest.raises(JobNotWaiting, match="is gone"):
        await port.pin(LEASED, placement("n1", 2, 3))
    assert await allocation(port, LEASED) == ()


async def test_a_pin_without_an_answer_counts_if_slurm_has_it_by_then(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    port._wall_clock = lambda: AFTER_BEGIN_S
    before = RECORDS[LEASED]
    pinned = before.replace("gres/gpu:2", "gres/gpu:g2:1,gres/gpu:g3:1")
    pinned = pinned.replace("ReqNodeList=(null)", "ReqNodeList=n1")
    commands.answer("update", LOST)

    commands.answer(f"job {LEASED}", before, pinned)
    await port.pin(LEASED, placement("n1", 2, 3))

    commands.answer(f"job {LEASED}", before, before)
    with pytest.raises(SlurmTimeout):
        await port.pin(LEASED, placement("n1", 2, 3))


async def test_a_job_whose_user_changed_it_since_the_dump_is_refused_once(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    port._wall_clock = lambda: AFTER_BEGIN_S
    await port.queue()
    changed = RECORDS[LEASED].replace("ExcNodeList=(null)", "ExcNodeList=n1")
    commands.answer(f"job {LEASED}", changed)

    with pytest.raises(SlurmRefused, match="its user has changed what it asks"):
        await port.pin(LEASED, placement("n2", 2, 3))
    assert commands.updates == []
    await port.pin(LEASED, placement("n2", 2, 3))
    assert [update["ReqNodeList"] for update in commands.updates] == ["n2"]


@pytest.mark.parametrize("edited", [LEASED, HOST])
async def test_a_job_joins_no_other_while_a_changed_comment_of_either_is_not_read(
    edited: JobId, commands: RecordedCommands, port: SlurmCli
) -> None:
    port._wall_clock = lambda: AFTER_BEGIN_S
    await port.queue()
    commands.answer(f"job {edited}", RECORDS[edited].replace("QOS=(null)", "QOS=other"))

    for _ in range(2):
        with pytest.raises(SlurmRefused, match=f"comment or the QoS of job {edited} has changed"):
            await port.pin(LEASED, placement("n2", 2, 3), beside=(HOST,))
    assert commands.updates == []
    await port.queue()  # reads it
    await port.pin(LEASED, placement("n2", 2, 3), beside=(HOST,))
    assert len(commands.updates) == 1


async def test_a_lease_never_ends_before_the_begin_that_a_user_asked_for(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    other = JobId(str(NUMBERS["gpus"]))  # no begin in its stamp
    await port.renew([LEASED, other], 60)
    assert commands.updates == [{"jobid": str(other), "StartTime": "now+60"}]


async def test_a_job_that_is_released_keeps_the_begin_that_its_user_asked_for(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    other = JobId(str(NUMBERS["gpus"]))
    await port.release([LEASED, other])
    begins = {update["jobid"]: update["StartTime"] for update in commands.updates}
    assert begins == {str(LEASED): "2030-01-01T00:00:00", str(other): "now"}


async def test_a_thousand_jobs_are_renewed_in_three_calls_though_some_are_gone(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    commands.answer("update", GONE)
    await port.renew([JobId(str(number)) for number in range(5_000, 6_000)], 60)
    assert [update["jobid"].count(",") + 1 for update in commands.updates] == [400, 400, 200]

    commands.answer("update", SlurmRefused(("scontrol",), 1, "Access/permission denied"))
    with pytest.raises(SlurmRefused):
        await port.renew([JobId("5000")], 60)


async def test_a_crowd_is_not_dumped_again_for_an_update_right_after_a_dump(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    """Its dumps are seconds apart, and all pins would wait for another one."""
    job_ids = [JobId("5000")]
    await port.queue()
    port._queue_interval_s = 2.0
    await port.renew(job_ids, 60)
    await port.renew(job_ids, 60)
    assert commands.asked.count("queue") == 1
    port.forget_limits()  # a user has changed a job
    await port.renew(job_ids, 60)
    assert commands.asked.count("queue") == 2
    await port.release(job_ids)
    await port.renew(job_ids, 60)
    assert commands.asked.count("queue") == 4


async def test_a_lease_that_has_run_out_is_renewed_by_each_update_that_one_dump_serves(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    eligible = JobId(str(NUMBERS["too-big"]))
    await port.queue()
    port._queue_interval_s = 2.0
    await port.renew([eligible], 600)
    await port.renew([eligible], 60)
    assert commands.asked.count("queue") == 1
    assert [update["StartTime"] for update in commands.updates] == ["now+600", "now+60"]


async def test_a_small_queue_is_dumped_again_before_each_renewal(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    """A user may have changed a begin time in between."""
    await port.queue()
    await port.renew([JobId("5000")], 60)
    assert commands.asked.count("queue") == 2


async def test_each_step_of_a_renewal_has_a_turn_of_its_own(
    commands: RecordedCommands, port: SlurmCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes some 8 ms for an array of 15,000 tasks, and no turn may take 100."""
    turn, turns = 0, list[int]()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(step: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            turns.append(turn)
            return step(*args, **kwargs)

        return run

    monkeypatch.setattr(port._ended_leases, "without", noted(port._ended_leases.without))
    monkeypatch.setattr(slurm_cli, "with_whole_records", noted(with_whole_records))
    monkeypatch.setattr(command, "_by_call", noted(command._by_call))
    monkeypatch.setattr(argvs, "renew", noted(argvs.renew))
    counting = asyncio.create_task(count_turns())
    await port.renew([JobId(f"7_{task}") for task in range(100)], 60)
    counting.cancel()
    assert len(turns) == len(set(turns)) == 4


async def test_a_reason_that_slurm_refuses_keeps_only_a_few_others_back(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    queue = read(RELEASE, "squeue.txt")
    (leased,) = (line for line in queue.splitlines() if "roost:lease" in line)
    numbers = [str(number) for number in range(5_000, 5_006)]
    copies = [re.sub(rf"^{LEASED}\x1f{LEASED}\x1f", f"{n}\x1f{n}\x1f", leased) for n in numbers]
    commands.answer("queue", "\n".join([*queue.splitlines(), *copies]) + "\n")
    for number in numbers:
        shown = RECORDS[LEASED].replace(f"JobId={LEASED} ", f"JobId={number} ")
        commands.answer(f"job {number}", shown)
    reasons = {JobId(number): f"waits for node n{number}" for number in numbers}
    refused = SlurmRefused(("scontrol",), 1, "Access/permission denied")

    commands.answer("update", refused, "")
    with pytest.raises(SlurmRefused, match="Access/permission denied"):
        await port.announce(reasons)
    assert [update["jobid"] for update in commands.updates] == numbers

    commands.updates.clear()
    commands.answer("update", refused)  # slurmctld has gone: not a deadline for each of them
    with pytest.raises(SlurmRefused):
        await port.announce(reasons)
    assert len(commands.updates) == 3


@pytest.mark.slurm
async def test_slurm_wakes_a_node_for_the_job_that_is_pinned_there(
    local_slurm_factory: LocalSlurmFactory,
) -> None:
    power_saving = PowerSavingPlan(suspend_after_s=2, always_on=("n2",))
    cluster = local_slurm_factory(replace(ClusterPlan.uniform(2), power_saving=power_saving))
    real = SlurmCli(conf=cluster.folder.slurm_conf)
    deadline_s = time.monotonic() + 60.0
    while (n1 := (await real.nodes())[0]).state != "idle+powered_down":
        assert time.monotonic() < deadline_s, n1.state
        assert n1.spec.usable is ("powering_down" not in n1.state)
        await asyncio.sleep(0.1)
    assert n1.spec.usable

    job_id = JobId(cluster.submit("--begin=now+600", "--gres=gpu:1"))
    cluster.run("scontrol", "update", f"jobid={job_id}", "AdminComment=roost:lease")
    await real.pin(job_id, placement("n1", 3))

    cluster.wait_for_state(job_id, "CONFIGURING")
    assert [(share.node, share.gpu_indices) for share in await allocation(real, job_id)] == [
        ("n1", (3,))
    ]
    deadline_s = time.monotonic() + 60.0
    while ("resume", "n1") not in cluster.power_requests():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)
    waking = (await real.nodes())[0]
    assert "powering_up" in waking.state
    assert waking.spec.usable


def test_a_job_is_not_pinned_before_its_users_begin_by_the_wall_clock_of_now() -> None:
    begin_s = int(time.time()) + 3600
    early = replace(
        parse_jobs(RECORDS[LEASED])[int(LEASED)], admin_comment=f"roost:lease begin={begin_s}"
    )

    with pytest.raises(NotDue, match="to begin in 3"):
        check_due(LEASED, early, time.time())
    check_due(LEASED, early, begin_s - 1.0)


async def test_jobs_are_let_to_start_in_one_call_and_leased_again(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    job_ids = [JobId("5000"), JobId("5001")]
    await port.let_start(job_ids)
    await port.renew(job_ids, 60)
    assert [(update["jobid"], update["StartTime"]) for update in commands.updates] == [
        ("5000,5001", "now"),
        ("5000,5001", "now+60"),
    ]


async def test_a_lease_that_slurm_did_not_give_was_not_ended_by_its_user(
    commands: RecordedCommands, port: SlurmCli
) -> None:
    eligible = JobId(str(NUMBERS["too-big"]))
    commands.answer("update", LOST, "")
    with pytest.raises(SlurmTimeout):
        await port.renew([eligible], 60)
    await port.renew([eligible], 60)
    assert commands.updates == [{"jobid": str(eligible), "StartTime": "now+60"}] * 2


async def test_the_states_of_nodes_are_read(commands: RecordedCommands, port: SlurmCli) -> None:
    commands.answer("node_states", "n1 idle\nn2 drained*\n")
    found = await port.node_states([NodeName("n1"), NodeName("n2")])
    assert found == {"n1": "idle", "n2": "drained*"}
