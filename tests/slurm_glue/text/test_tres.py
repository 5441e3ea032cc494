import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_slurm.text import tres
from roost_slurm.text.tres import (
    Gres,
    TresError,
    allocated_gpus,
    beside_gpus,
    gpu_count,
    gpu_kinds,
    parse_counts,
    parse_gres,
    parse_indices,
    parse_memory_bytes,
    parse_tres,
    prefix_of,
    typed_gpus,
    typed_indices,
    without_gres,
)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("gres:gpu:2", [Gres("gpu", None, 2)]),  # 22.05
        ("gres/gpu:2", [Gres("gpu", None, 2)]),  # later
        ("gres/gpu=1", [Gres("gpu", None, 1)]),  # --gpus-per-task since 24.11
        ("cpu=3,gres/gpu=1", [Gres("gpu", None, 1)]),  # with -c3
        ("cpu=3", []),
        ("gpu", [Gres("gpu", None, 1)]),
        ("gpu:a100:2", [Gres("gpu", "a100", 2)]),
        ("gpu:a100", [Gres("gpu", "a100", 1)]),
        ("gres/gpu:a100=2", [Gres("gpu", "a100", 2)]),
        ("gpu:1g.5gb:3", [Gres("gpu", "1g.5gb", 3)]),
        ("gpu:2,gputoken:2", [Gres("gpu", None, 2), Gres("gputoken", None, 2)]),
        ("gres:gpu:g6:1,gres:gpu:g7:1", [Gres("gpu", "g6", 1), Gres("gpu", "g7", 1)]),
        ("N/A", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_requests_are_read_in_every_spelling(text: str, entries: list[Gres]) -> None:
    assert list(parse_gres(text)) == entries


@pytest.mark.parametrize("text", ["gpu:", "gpu::2", ":2", "gpu:2(S:0)", "gpu:2,,gpu:1"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(TresError):
        parse_gres(text)


@given(st.sets(st.integers(0, 15), min_size=1), st.sampled_from(["", "gres:", "gres/"]))
def test_typed_request_names_exactly_its_gpus(indices: set[int], prefix: str) -> None:
    request = parse_gres(typed_gpus(indices, prefix=prefix))
    assert typed_indices(request) == tuple(sorted(indices))
    assert gpu_count(request) == len(indices)
    assert len(gpu_kinds(request)) == len(indices)


def test_a_typed_request_takes_a_token_with_each_gpu() -> None:
    assert typed_gpus([3, 1], count=2, prefix="gres:", tokens=["h100", "gputoken"]) == (
        "gres:gpu:g1:2,gres:gpu:g3:2,gres:gputoken:4,gres:h100:4"
    )
    assert beside_gpus(parse_gres("gres/gpu:2,gres/h100:2,cpu=3")) == {"h100"}
    assert beside_gpus(parse_gres("gpu:g1:1")) == set()


def test_prefix_is_found_where_it_stands() -> None:
    assert prefix_of("gres:gpu:2") == "gres:"
    assert prefix_of("cpu=3,gres/gpu=1") == "gres/"
    assert prefix_of("gpu:2") == ""
    assert without_gres("cpu=3,gres/gpu=1") == "cpu=3"
    assert without_gres("gres:gpu:2") == ""


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("gpu:g6:1(IDX:6),gpu:g7:1(IDX:7)", (6, 7)),
        ("gpu:a100:3(IDX:0-1,4)", (0, 1, 4)),
        ("gpu:2(IDX:1,3)", (1, 3)),
        ("gpu:g0:1(IDX:0),gpu:g5:0(IDX:),gpu:g6:0(IDX:N/A)", (0,)),
        ("gputoken:2,shard:g3:1(IDX:3)", ()),
        ("", ()),
    ],
)
def test_allocated_indices_are_read(text: str, indices: tuple[int, ...]) -> None:
    assert allocated_gpus(text) == indices


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("shard:2(IDX:1)", (1,)),
        ("gpu:g0:1(IDX:0),shard:g2:9(IDX:2-3),mps:50(IDX:7)", (2, 3, 7)),
        ("shard:g0:0(IDX:N/A),shard:g1:0(IDX:)", ()),
        ("shard:3(2/8,0/8,0/8,1/8)", (0, 3)),  # 24.11 and 26.05, by index
        ("gpu:g5:1(IDX:5),shard:g7:10(0/8,10/8,-/8)", (1,)),
        ("mps:50(50/100,0/100),shard:1(1/8)", (0,)),
        ("gpu:shard:1(1/8),myshard:1(1/8),shard:1(/8),shard:1(1)", ()),
        ("gpu:shard:1(IDX:4),nvme:1(IDX:5),myshard:1(IDX:6)", ()),
    ],
)
def test_gpus_that_are_allocated_in_parts_are_read(text: str, indices: tuple[int, ...]) -> None:
    assert tres.shared_gpus(text) == indices


@pytest.mark.parametrize("text", ["1-", "-3", "5-2", "a", "1-99999999", "²"])
def test_indices_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(TresError):
        parse_indices(text)


def test_amounts_are_read() -> None:
    assert parse_tres("cpu=4,mem=2000M,node=1") == {"cpu": "4", "mem": "2000M", "node": "1"}
    assert parse_tres("N/A") == {}
    assert parse_memory_bytes("500M") == 500 << 20
    assert parse_memory_bytes("62.50G") == 62.5 * (1 << 30)
    assert parse_memory_bytes("100Mc") == 100 << 20
    assert parse_memory_bytes("2000") == 2000 << 20
    with pytest.raises(TresError):
        parse_memory_bytes("much")


def test_amounts_are_read_and_memory_counts_in_mib() -> None:
    text = "cpu=4,mem=1.50G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2"
    assert parse_counts(text) == {
        "cpu": 4.0,
        "mem": 1536.0,
        "node": 1.0,
        "billing": 4.0,
        "gres/gpu": 2.0,
        "gres/gpu:a100": 2.0,
    }
    assert parse_counts("mem=100000,gres/gpu=1K") == {"mem": 100000.0, "gres/gpu": 1024.0}
    assert parse_counts("cpu=many,node=1") == {"node": 1.0}
    assert parse_counts("N/A") == {}


def test_second_seats_are_gpus_with_a_seat() -> None:
    text = "gpu:s3:1(IDX:11),gpu:s5:1(IDX:13)"
    assert (tres.allocated_gpus(text), tres.allocated_seat(text)) == ((3, 5), 1)
    text = "gpu:g3:1(IDX:3),gpu:s3:0(IDX:N/A),gputoken:1"
    assert (tres.allocated_gpus(text), tres.allocated_seat(text)) == ((3,), 0)
    asked = tres.typed_gpus([5, 3], seat=1, prefix="gres:")
    assert asked == "gres:gpu:s3:1,gres:gpu:s5:1"
    gres = tres.parse_gres(asked)
    assert (tres.typed_indices(gres), tres.typed_seat(gres)) == ((3, 5), 1)
    assert tres.typed_seat(tres.parse_gres("gpu:g3:1")) == 0
