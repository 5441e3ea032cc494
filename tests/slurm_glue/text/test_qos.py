import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.qos import OVER_PARTITION_QOS, PARTITION_TIME_LIMIT, QosTraits, parse_qos


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_qos_may_preempt_and_its_flags_are_read(release: str) -> None:
    qos = parse_qos(read(release, "site_qos.txt"))
    assert qos["high"] == QosTraits(
        name="high",
        preempts=frozenset({"low", "normal"}),
        flags=frozenset({"DenyOnLimit", OVER_PARTITION_QOS}),
        limit_factor=2.0,
    )
    assert PARTITION_TIME_LIMIT in qos["part"].flags
    assert qos["low"].preempt_modes == {"requeue"}
    assert qos["low"].preempt_exempt_s == 300.0
    assert qos["big jobs"] == QosTraits(name="big jobs")


def test_lines_that_are_no_qos_are_left_out() -> None:
    assert parse_qos("sacctmgr: error: slurmdbd is away\n||||\na|b\n") == {}
    assert parse_qos("") == {}


@pytest.mark.parametrize(("text", "seconds"), [("", None), ("1-00:00:01", 86_401.0), ("?", None)])
def test_for_how_long_jobs_are_spared_is_read(text: str, seconds: float | None) -> None:
    assert parse_qos(f"low||requeue|||{text}\n")["low"].preempt_exempt_s == seconds
