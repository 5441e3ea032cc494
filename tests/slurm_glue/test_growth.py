"""What a parser costs grows no faster than the text: users choose the length of many texts."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roost_slurm.hooks.spool import parse_line
from roost_slurm.site.site_check import check
from roost_slurm.text.assoc_mgr import parse_assoc_mgr
from roost_slurm.text.hostlist import compress, expand
from roost_slurm.text.licenses import parse_licenses, parse_request
from roost_slurm.text.partitions import parse_partitions
from roost_slurm.text.qos import parse_qos
from roost_slurm.text.reservations import parse_reservations
from roost_slurm.text.scheduling import parse_scheduling
from roost_slurm.text.scontrol import parse_config, parse_jobs, parse_nodes, parse_racks
from roost_slurm.text.shadow_question import parse_answer
from roost_slurm.text.squeue import parse_queue, parse_tasks
from roost_slurm.text.stamp import advice, parse_stamp
from roost_slurm.text.times import parse_limit, parse_time
from roost_slurm.text.tres import (
    allocated_gpus,
    parse_counts,
    parse_gres,
    parse_indices,
    parse_memory_bytes,
    parse_tres,
    prefix_of,
    without_gres,
)
from roost_slurm.text.versions import parse_version

Parser = Callable[[str], Any]
PARSERS: dict[str, Parser] = {
    "allocated_gpus": allocated_gpus,
    "advice": lambda text: advice(text, "x"),
    "check": lambda text: check(f"SelectType=x\nSchedulerParameters={text}\n{text}=1"),
    "compress": lambda text: compress(text.split()),
    "expand": expand,
    "parse_answer": parse_answer,
    "parse_assoc_mgr": parse_assoc_mgr,
    "parse_config": parse_config,
    "parse_counts": parse_counts.__wrapped__,
    "parse_gres": parse_gres,
    "parse_indices": parse_indices,
    "parse_jobs": parse_jobs,
    "parse_licenses": parse_licenses,
    "parse_limit": parse_limit,
    "parse_line": parse_line,
    "parse_memory_bytes": parse_memory_bytes,
    "parse_nodes": parse_nodes,
    "parse_partitions": parse_partitions,
    "parse_qos": parse_qos,
    "parse_queue": parse_queue,
    "parse_racks": parse_racks,
    "parse_request": parse_request,
    "parse_reservations": parse_reservations,
    "parse_scheduling": parse_scheduling,
    "parse_stamp": parse_stamp.__wrapped__,
    "parse_tasks": parse_tasks,
    "parse_time": parse_time,
    "parse_tres": parse_tres,
    "parse_version": parse_version,
    "prefix_of": prefix_of,
    "without_gres": without_gres,
}
JOB = (
    "JobId=7 JobName={} UserId=a(1) Priority=1 QOS={} JobState=RUNNING Reason={} NumNodes=1"
    " NumTasks=1 ReqNodeList=(null) ExcNodeList=(null) {} AdminComment={} Comment={} \n"
)
STARTS = (
    *("", "JobId=7 ", "NodeName=a State=b ", "PartitionName=", "ReservationName=", "LicenseName="),
    *("QOS=", "QOS=a(1) UsageRaw=0 ", "QOS=a(1) UsageRaw=0 Account Limits=", "SwitchName="),
    *("ClusterName=a Account=", "ClusterName=a Account=r UserName= Partition= Priority=1 "),
    *(
        "roost:lease ",
        "a[",
        "gres/gpu:",
        "gpu:2(IDX:",
        "Job 1 to start at ",
        "slurm ",
        " JOB_GRES=",
    ),
)
PIECES = (
    *(" ", "\t", "a", "A=", " A", " A=b", ",", ":", "(", ")", "[", "]", "{", "}", "1", "1-", "1,"),
    *("\n", "|", "=", ".", "\x1f", "a:1(", "gpu:", "(IDX:", "gres/", "was=", "a:b;", "slurm 1"),
    *(" Account=", " UserName=", " Partition=", " ParentAccount=", "(1)", "=1(1),", " UsageRaw="),
    *(" Nodes=", " CPU_IDs=1", " Mem=1", " GRES=", " MinCPUsNode=", " JobName=", " UserId="),
    *(" Comment=", " AdminComment=", " Reason=", " QOS=", " JobState=", "JobId=1 ", "roost:"),
    *("roost:advice ", "Job 1 to start at a ", "using 1 processors on nodes ", "(S:", "٣"),
)
SHORT, FACTOR = 3_000, 4  # letters; how much longer the other text is
LINEAR = 2.5 * FACTOR  # a square gives FACTOR ** 2
LEAST_S = 4e-3  # of a long text that is too short to be measured, which is no square either


def cpu_s(parse: Parser, text: str) -> float:
    """The least CPU time of this thread in a few runs."""
    took_s = []
    for _ in range(3):
        began_s = time.thread_time()
        with contextlib.suppress(ValueError):
            parse(text)
        took_s.append(time.thread_time() - began_s)
        if took_s[-1] > 0.2:
            break
    return min(took_s)


def is_linear(parse: Parser, of_length: Callable[[int], str]) -> bool:
    """Whether a text that is FACTOR times as long costs no more than LINEAR times as much."""
    for _ in range(3):
        long_s = cpu_s(parse, of_length(SHORT * FACTOR))
        if long_s < LEAST_S or long_s < LINEAR * cpu_s(parse, of_length(SHORT)):
            return True
    return False


def repeated(piece: str, length: int) -> str:
    return piece * (length // len(piece))


def sample(start: str, piece: str, length: int) -> str:
    return start + repeated(piece, length)


SAMPLES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("piece", ["a", "{", "{a", " UserName=", " ParentAccount="])
@pytest.mark.parametrize("name", ["allocated_gpus", "parse_assoc_mgr"])
def test_texts_that_once_cost_the_square_of_their_length(name: str, piece: str) -> None:
    for start in STARTS:
        assert is_linear(PARSERS[name], partial(sample, start, piece))


@MANY
@given(st.sampled_from(sorted(PARSERS)), st.sampled_from(STARTS), SAMPLES)
def test_cost_grows_with_the_length(name: str, start: str, piece: str) -> None:
    assert is_linear(PARSERS[name], partial(sample, start, piece))


@MANY
@given(st.integers(0, 5), SAMPLES)
def test_cost_of_a_job_grows_with_each_of_its_texts(place: int, piece: str) -> None:
    def record(length: int) -> str:
        texts = ["x"] * 6
        texts[place] = repeated(piece, length)
        return JOB.format(*texts)

    assert is_linear(parse_jobs, record)


def test_many_jobs_full_of_blanks_cost_what_their_letters_cost() -> None:
    def jobs(letter: str) -> str:
        text = letter * 1_000
        records = (JOB.format(text, "x", "x", "", text, text) for _ in range(250))
        return "".join(r.replace("JobId=7", f"JobId={i}", 1) for i, r in enumerate(records))

    assert len(parse_jobs(jobs(" "))) == 250
    assert cpu_s(parse_jobs, jobs(" ")) < 20 * cpu_s(parse_jobs, jobs("a"))


def test_a_job_that_imitates_allocations_builds_no_more_than_a_cluster_has() -> None:
    text = " JOB_GRES=gpu:1" + repeated(" Nodes=n[1-60000] CPU_IDs=0 Mem=1 GRES=x", 4_000)
    assert parse_jobs(JOB.format("x", "x", "x", text, "x", "x"))[7].allocated == ()
