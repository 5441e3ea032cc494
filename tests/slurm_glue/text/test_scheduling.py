import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.scheduling import Scheduling, parse_scheduling


@pytest.mark.parametrize("release", RELEASES)
def test_settings_of_a_site_with_accounting_are_read(release: str) -> None:
    assert parse_scheduling(read(release, "site_config.txt")) == Scheduling(
        has_slurmdbd=True,
        enforced=frozenset({"associations", "limits", "qos", "safe"}),
        preempt_type="preempt/qos",
        preempt_modes=frozenset({"REQUEUE"}),
        priority_type="priority/multifactor",
        age_weight=60_000,
        fair_share_weight=0,
        scheduler_parameters=("batch_sched_delay=0", "sched_interval=2", "bf_interval=2"),
        resume_timeout_s=60.0,
    )


@pytest.mark.parametrize("release", RELEASES)
def test_site_without_accounting_enforces_nothing(release: str) -> None:
    scheduling = parse_scheduling(read(release, "show_config.txt"))
    assert not scheduling.enforces_limits
    assert not scheduling.is_safe
    assert not scheduling.has_slurmdbd
    assert scheduling.preempt_type == "preempt/none"
    assert scheduling.preempt_modes == {"OFF"}


def test_power_saving_and_gang_scheduling_are_read() -> None:
    text = (
        "ResumeTimeout   = 600 sec\nPreemptMode = GANG,SUSPEND\nAccountingStorageEnforce = none\n"
    )
    scheduling = parse_scheduling(text)
    assert scheduling.resume_timeout_s == 600.0
    assert scheduling.preempt_modes == {"GANG", "SUSPEND"}
    assert scheduling.enforced == frozenset()
    assert parse_scheduling("") == Scheduling()


@pytest.mark.parametrize(
    ("program", "private", "hides"),
    [
        ("/usr/sbin/resume", "none", True),
        ("/usr/sbin/resume", "accounts,jobs", True),
        ("/usr/sbin/resume", "cloud,jobs", False),
        ("(null)", "none", False),
    ],
)
def test_powered_down_cloud_nodes_are_hidden_unless_private_data_shows_them(
    program: str, private: str, hides: bool
) -> None:
    text = f"PrivateData = {private}\nResumeProgram = {program}\n"
    assert parse_scheduling(text).hides_nodes is hides


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00:00", 0.0), ("00:05:30", 330.0), ("NONE", 0.0), ("?", 0.0)]
)
def test_for_how_long_jobs_are_spared_is_read(text: str, seconds: float) -> None:
    assert parse_scheduling(f"PreemptExemptTime = {text}\n").preempt_exempt_s == seconds


@pytest.mark.parametrize("text", ["", "(null)", "-1", "1e9", "9" * 30, "٣"])
def test_a_weight_that_is_no_number_is_unknown(text: str) -> None:
    assert parse_scheduling(f"PriorityWeightAge = {text}\n").age_weight is None
