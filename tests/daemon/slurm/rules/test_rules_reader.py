"""The reader of a site's rules: which commands it runs, how often, and what it keeps."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.conftest import LocalSlurmFactory
from tests.daemon.slurm.recorded_site import rules
from tests.e2e.ledger import until
from tests.slurm_glue.recorded import RELEASES, read

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_slurm.testing.cluster_plan import ClusterPlan, PartitionPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.testing.site_plan import AccountingPlan
from roost_slurm.text import commands
from roost_slurm.text.commands import Argv
from roostd.slurm.rules.reasons import ReasonClass, reason_class
from roostd.slurm.rules.rules_reader import RulesReader, members_of, user_id_of
from roostd.slurm.rules.site_rules import SiteRules
from roostd.slurm.slurm_cli import SlurmCli

CONFIG, ASSOC_MGR, QOS = commands.show_config(), commands.show_assoc_mgr(), commands.show_qos()
FILES = {
    CONFIG: "site_config.txt",
    ASSOC_MGR: "site_assoc_mgr.txt",
    QOS: "site_qos.txt",
    commands.show_licenses(): "site_licenses.txt",
    commands.show_partitions(): "site_partitions.txt",
    commands.show_reservations(): "site_reservations.txt",
}


class Slurm:
    """Answers with recordings; a command in `failing` raises."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.asked: list[Argv] = []
        self.failing: dict[Argv, Exception] = {}
        self.instead: dict[Argv, str] = {}
        self.looked_up: list[str] = []

    async def ask(self, argv: Argv) -> str:
        self.asked.append(argv)
        if argv in self.failing:
            raise self.failing[argv]
        return self.instead.get(argv, read(self.release, FILES[argv]))

    def reader(self, interval_s: Callable[[], float] = lambda: 0.0) -> RulesReader:
        return RulesReader(self.ask, interval_s, epoch=lambda: 0.0, uid_of=self.uid_of)

    def uid_of(self, name: str) -> int | None:
        self.looked_up.append(name)
        return {"news": 9}.get(name)


@pytest.mark.parametrize("release", RELEASES)
async def test_all_parts_are_read(release: str) -> None:
    slurm = Slurm(release)
    assert await slurm.reader().read() == rules(release)
    assert sorted(slurm.asked) == sorted(FILES)


async def test_rules_are_read_once_an_interval_and_slurmdbd_is_asked_less_often() -> None:
    interval_s = 3_600.0
    slurm = Slurm("24.11")
    reader = slurm.reader(lambda: interval_s)
    first = await reader.read()
    assert await reader.read() is first
    assert len(slurm.asked) == len(FILES)
    interval_s = 0.0
    assert await reader.read() == first
    assert len(slurm.asked) == 2 * len(FILES) - 1
    assert slurm.asked.count(QOS) == 1


async def test_a_new_job_is_judged_by_partitions_and_reservations_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roostd.slurm.rules.rules_reader._NEW_JOB_AGE_S", 0.0)
    slurm = Slurm("24.11")
    reader = slurm.reader(lambda: 3_600.0)
    await reader.read(newest_job=7)
    await reader.read(newest_job=7)
    partitions = commands.show_partitions()
    slurm.instead[partitions] = read("24.11", FILES[partitions]).replace("State=UP", "State=DOWN")
    found = await reader.read(newest_job=8)
    assert found.partitions["main"].state == "DOWN"
    assert slurm.asked.count(partitions) == 2
    assert slurm.asked.count(ASSOC_MGR) == 1


async def test_reservations_are_read_again_for_each_look_with_a_new_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm does not keep a pin off the GPUs of a reservation that was made just now."""
    for age in ("_NEW_JOB_AGE_S", "_CHANGING_AGE_S"):  # a busy machine takes longer than these
        monkeypatch.setattr(f"roostd.slurm.rules.rules_reader.{age}", 3_600.0)
    slurm = Slurm("24.11")
    reader = slurm.reader(lambda: 3_600.0)
    await reader.read(newest_job=7)
    slurm.instead[commands.show_reservations()] = ""
    assert (await reader.read(newest_job=7)).reservations
    assert not (await reader.read(newest_job=8)).reservations
    await reader.read(newest_job=8)
    assert slurm.asked.count(commands.show_reservations()) == 2
    assert slurm.asked.count(commands.show_partitions()) == 1


async def test_a_new_qos_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roostd.slurm.rules.rules_reader._CHANGING_AGE_S", 0.0)
    slurm = Slurm("24.11")
    reader = slurm.reader(lambda: 3_600.0)
    known = (await reader.read()).qos_traits.keys()
    await reader.read(known)
    assert slurm.asked.count(QOS) == 1
    await reader.read({*known, "a new one"})
    assert slurm.asked.count(QOS) == 2


async def test_limits_of_a_qos_are_read_again_when_its_first_job_comes() -> None:
    slurm = Slurm("24.11")
    reader = slurm.reader(lambda: 3_600.0)
    await reader.read()
    name, *_ = (await reader.read()).qos_traits
    for _ in range(3):  # within a second of the reading before
        await reader.read({name})
    assert slurm.asked.count(ASSOC_MGR) == 2
    assert slurm.asked.count(QOS) == 1


async def test_site_without_accounting_is_not_asked_for_it() -> None:
    slurm = Slurm("24.11")
    slurm.instead[CONFIG] = read("24.11", "show_config.txt")
    read_rules = await slurm.reader().read()
    assert read_rules.licenses
    assert not read_rules.accounting.qos
    assert not {ASSOC_MGR, QOS}.intersection(slurm.asked)


async def test_part_that_fails_from_the_start_is_empty_and_costs_no_other_one() -> None:
    slurm = Slurm("24.11")
    slurm.failing[QOS] = SlurmRefused(QOS, 127, "cannot be run: No such file or directory")
    read_rules = await slurm.reader().read()
    assert not read_rules.qos_traits
    assert read_rules.accounting == rules("24.11").accounting


async def test_part_that_fails_later_stays_as_it_was_and_is_logged_once() -> None:
    slurm = Slurm("24.11")
    reader = slurm.reader()
    before = await reader.read()
    slurm.failing = dict.fromkeys(FILES, SlurmTimeout(("scontrol",), 1.0))
    with capture_logs() as logs:
        assert await reader.read() == before
        assert await reader.read() == before
    parts = [line["part"] for line in logs if line["event"] == "site_rules_unreadable"]
    assert sorted(parts) == [
        *("accounting", "licenses", "partitions", "reservations", "scheduling"),
    ]
    slurm.failing.clear()
    assert await reader.read() == before
    slurm.failing[ASSOC_MGR] = SlurmTimeout(ASSOC_MGR, 1.0)
    with capture_logs() as logs:
        await reader.read()
    assert [line["part"] for line in logs] == ["accounting"]


async def test_site_that_answers_nothing_has_no_rules() -> None:
    slurm = Slurm("24.11")
    slurm.failing = dict.fromkeys(FILES, SlurmTimeout(("scontrol",), 1.0))
    assert await slurm.reader().read() == SiteRules()


async def test_users_of_magnetic_reservations_alone_are_looked_up_and_once() -> None:
    slurm = Slurm("24.11")
    text = read("24.11", FILES[commands.show_reservations()])
    slurm.instead[commands.show_reservations()] = text.replace("Users=news", "Users=news,-gone")
    reader = slurm.reader()
    assert (await reader.read()).user_ids == {"news": 9}
    await reader.read()
    assert slurm.looked_up == ["gone", "news", "gone"]  # an unknown user may be added later


async def test_groups_of_magnetic_reservations_are_looked_up() -> None:
    slurm = Slurm("24.11")
    text = read("24.11", FILES[commands.show_reservations()])
    in_groups = text.replace("Users=news Groups=(null)", "Users=(null) Groups=root,-no-such-group")
    slurm.instead[commands.show_reservations()] = in_groups
    found = (await slurm.reader().read()).group_members
    assert found["root"] >= {0}
    assert found["no-such-group"] == frozenset()


def test_members_of_a_group_are_its_own_users_and_those_that_it_names() -> None:
    for name, user_id in (("root", 0), ("daemon", 1), ("mail", 8)):
        assert user_id in members_of(name)
    assert members_of("no such group") == frozenset()


def test_user_ids_are_the_machines_own() -> None:
    assert user_id_of("root") == 0
    assert user_id_of("no such user") is None


GAMES, NEWS = "games", "news"  # users that every Debian has, 5 and 9


@pytest.fixture(scope="module")
def cluster(local_slurm_factory: LocalSlurmFactory) -> LocalSlurm:
    """A user may have 2 GPUs, the account of both users 4."""
    plan = replace(
        ClusterPlan.uniform(2),
        partitions=(PartitionPlan(), PartitionPlan(name="closed")),
        licenses="ansys:1",
        accounting=AccountingPlan(),
    )
    cluster = local_slurm_factory(plan)
    cluster.accounting.add_qos("small", MaxTRESPerUser="gres/gpu=2", Preempt="normal")
    cluster.accounting.add_account("physics", GrpTRES="gres/gpu=4")
    for user in (GAMES, NEWS):
        cluster.accounting.add_user(user, "physics", qos=("small",))
    cluster.run("scontrol", "update", "partitionname=closed", "state=DOWN")
    until(lambda: knows_limits(cluster), "slurmctld has heard of the limits")
    return cluster


def knows_limits(cluster: LocalSlurm) -> bool:
    """Return whether slurmctld itself has both users, the account's limit and the QoS."""
    shown = cluster.run("scontrol", "show", "assoc_mgr", "flags=qos,assoc")
    words = (f"UserName={GAMES}(", f"UserName={NEWS}(", "QOS=small(", "gres/gpu=4(")
    return all(word in shown for word in words)


@pytest.mark.slurm
async def test_quotas_say_what_slurm_says_and_before_it(cluster: LocalSlurm) -> None:
    port = SlurmCli(
        conf=cluster.folder.slurm_conf, queue_interval_s=0.0, rules_interval_s=lambda: 0.0
    )

    async def exceeded(job_id: str) -> list[str]:
        """The quotas in which a job does not fit, and why Slurm would never start it."""
        site, queue = await port.rules(), (await port.queue()).jobs
        free = site.free(queue)
        (one,) = (job for job in queue if str(job.number) == job_id)
        beyond = [use.quota for use in site.quotas(one) if use.amount > free[use.quota]]
        never = site.why_not(one, None)
        return [*beyond, *([never.partition(":")[0]] if never else [])]

    first = cluster.submit("-q", "small", "--gres=gpu:2", user=GAMES)
    cluster.wait_for_state(first, "RUNNING")
    second = cluster.submit("-q", "small", "--gres=gpu:1", "-L", "ansys:1", user=GAMES)
    assert await exceeded(second) == ["QOSMaxTRESPerUser small user=games gres/gpu"]
    held = cluster.submit("--hold", "--gres=gpu:3", user=NEWS)
    assert await exceeded(held) == ["AssocGrpTRES physics gres/gpu"]
    closed = cluster.submit("-p", "closed", "--gres=gpu:1", user=NEWS)
    assert await exceeded(closed) == ["PartitionDown"]
    large = cluster.submit("--hold", "--gres=gpu:5", user=NEWS)
    assert await exceeded(large) == ["AssocGrpTRES physics gres/gpu", "AssocGrpGRES"]

    jobs = {str(job.number): job for job in (await port.queue()).jobs}
    assert reason_class(jobs[second].reason) in (ReasonClass.LIMIT, ReasonClass.RESOURCES)
    assert (await port.rules()).qos_traits["small"].preempts == {"normal"}

    cluster.run("scancel", first)
    cluster.wait_for_state(second, "RUNNING")
    assert await exceeded(held) == []
    assert (await port.rules()).free((await port.queue()).jobs)["License ansys"] == 0.0
