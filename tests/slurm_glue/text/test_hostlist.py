"""Host lists: Slurm's short form and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import LocalSlurmFactory

from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.text import hostlist
from roost_slurm.text.hostlist import HostlistError

HOSTS = st.from_regex(r"[a-z][a-z0-9.-]{0,5}[0-9]{0,4}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n1,n1", ["n1", "n1"]),
        ("n[1-3,7],gpu-[009-010]", ["n1", "n2", "n3", "n7", "gpu-009", "gpu-010"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[1]-ib", ["n1-ib"]),
    ],
)
def test_expands(text: str, hosts: list[str]) -> None:
    assert hostlist.expand(text) == hosts


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["login", "n2", "n1", "n3", "n7", "n1"], "login,n[1-3,7]"),
        (["n098", "n099", "n100", "n101"], "n[098-101]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n01", "n1"], "n[1,01]"),
        (["r1n1", "r2n1"], "r1n1,r2n1"),
        (["a", "a1"], "a,a1"),
    ],
)
def test_compresses(hosts: list[str], text: str) -> None:
    assert hostlist.compress(hosts) == text


@given(st.sets(HOSTS, max_size=40))
def test_compressing_loses_no_host(hosts: set[str]) -> None:
    expanded = hostlist.expand(hostlist.compress(hosts))
    assert set(expanded) == hosts
    assert len(expanded) == len(hosts)


@given(st.sets(st.integers(0, 2000), min_size=1, max_size=60), st.integers(1, 5))
def test_a_run_of_numbers_becomes_one_range(numbers: set[int], width: int) -> None:
    text = hostlist.compress(f"n{number:0{width}}" for number in numbers)
    runs = sum(number - 1 not in numbers for number in numbers)
    assert len(re.findall(r"\d+(?:-\d+)?", text)) == runs


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("n[1-3", "not closed"),
        ("n1]", "unexpected"),
        ("n[[1]]", "unexpected"),
        ("n[3-1]", "backwards"),
        ("n[]", "neither"),
        ("n[a-b]", "neither"),
        ("n[1-]", "neither"),
        ("a,,b", "empty"),
        ("a, b", "white space"),
        ("a,", "empty"),
        ("n[1-999999999]", "more than"),
        ("n[1-1000]m[1-1000]", "more than"),
        ("n[٣]", "neither"),
    ],
)
def test_refuses_what_is_no_host_list(text: str, problem: str) -> None:
    with pytest.raises(HostlistError, match=problem):
        hostlist.expand(text)


@given(st.text("n1[]-,0 ", max_size=12))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        hosts = hostlist.expand(text)
    except HostlistError:
        return
    assert all(hosts)


@pytest.mark.parametrize("host", ["", "a,b", "a[1]", "a b"])
def test_compress_refuses_what_is_no_host(host: str) -> None:
    with pytest.raises(HostlistError):
        hostlist.compress([host])


@pytest.mark.slurm
def test_agrees_with_scontrol(local_slurm_factory: LocalSlurmFactory) -> None:
    cluster = local_slurm_factory(ClusterPlan.uniform(1, 0))
    for text in ("n[1-3,7],gpu-[009-010]", "r[1-2]n[1-2]", "n[8-11]", "a,n1,n1"):
        assert cluster.run("scontrol", "show", "hostnames", text).split() == hostlist.expand(text)
    hosts = ["login", "n098", "n099", "n100", "x9", "x10", "r1n1", "r2n1"]
    shown = cluster.run("scontrol", "show", "hostnames", hostlist.compress(hosts)).split()
    assert sorted(shown) == sorted(hosts)
