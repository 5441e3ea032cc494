"""The admin comment that marks a job as managed by Roost."""

import pytest

from roost_slurm.text.limits import LAST_EPOCH_S
from roost_slurm.text.stamp import RELEASED_STAMP, Stamp, advice, parse_stamp, seen_by, with_eta

WAS = (("TresPerJob", "gres:gpu:2"), ("Features", ""))


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        (Stamp(), "roost:lease"),
        (Stamp(begin_epoch_s=1_800_000_000), "roost:lease begin=1800000000"),
        (Stamp(owner="1f", begin_epoch_s=5), "roost:lease owner=1f begin=5"),
        (Stamp(was=WAS), "roost:lease was=TresPerJob:gres:gpu:2;Features:"),
        (
            Stamp(begin_epoch_s=0, was=WAS),
            "roost:lease begin=0 was=TresPerJob:gres:gpu:2;Features:",
        ),
    ],
)
def test_a_stamp_reads_back_as_it_was_written(stamp: Stamp, text: str) -> None:
    assert str(stamp) == text
    assert parse_stamp(text) == stamp


@pytest.mark.parametrize("text", ["", "mine", "roost:leased", "my roost:lease", RELEASED_STAMP])
def test_other_comments_are_no_lease(text: str) -> None:
    assert parse_stamp(text) is None


def test_unknown_words_and_advice_are_ignored() -> None:
    text = "roost:lease colour=red begin=5 roost:advice begin=9 was=A:b"
    assert parse_stamp(text) == Stamp(begin_epoch_s=5)


@pytest.mark.parametrize(
    ("text", "begin_epoch_s"),
    [("soon", None), ("-1", None), ("", None), ("9" * 20, LAST_EPOCH_S), ("9" * 5000, None)],
)
def test_an_absurd_begin_does_no_harm(text: str, begin_epoch_s: int | None) -> None:
    assert parse_stamp(f"roost:lease begin={text}") == Stamp(begin_epoch_s=begin_epoch_s)


def test_a_second_pin_keeps_the_request_that_the_user_made() -> None:
    once = Stamp(begin_epoch_s=5).pinned_from(WAS)
    assert once == Stamp(begin_epoch_s=5, was=WAS)
    assert once.pinned_from((("TresPerJob", "gres:gpu:g0:1"),)) == once


def test_advice_replaces_older_advice_and_nothing_else() -> None:
    assert advice("", "n1: GPUs 0-1") == "roost:advice n1: GPUs 0-1"
    once = advice("roost:lease begin=5", "n1: GPUs 0-1")
    assert once == "roost:lease begin=5 roost:advice n1: GPUs 0-1"
    assert advice(once, "n2: GPU 3") == "roost:lease begin=5 roost:advice n2: GPU 3"
    assert parse_stamp(once) == Stamp(begin_epoch_s=5)


def test_a_forecast_replaces_an_older_one_and_nothing_else() -> None:
    once = with_eta("roost:lease begin=5", "start 14:20")
    assert once == "roost:lease begin=5 roost:eta[start 14:20]"
    assert with_eta(once, "start 15:00") == "roost:lease begin=5 roost:eta[start 15:00]"
    assert parse_stamp(once) == Stamp(begin_epoch_s=5)
    advised = advice(once, "n1: GPUs 0-1")
    assert advised == f"{once} roost:advice n1: GPUs 0-1"
    assert with_eta(advised, "x") == "roost:lease begin=5 roost:eta[x] roost:advice n1: GPUs 0-1"
    assert with_eta("roost:lease roost:advice a", "x") == "roost:lease roost:eta[x] roost:advice a"


def test_a_forecast_leaves_the_words_of_others() -> None:
    assert with_eta("", "x") == "roost:eta[x]"
    assert with_eta("charge to 17", "x") == "charge to 17 roost:eta[x]"
    assert with_eta("charge roost:eta[x] to 17", r"y\1") == r"charge roost:eta[y\1] to 17"
    assert with_eta("no-roost:eta[x]", "y") == "no-roost:eta[x] roost:eta[y]"


def test_the_lease_of_another_roostd_is_none() -> None:
    mine, old = "roost:lease owner=1f begin=5", "roost:lease begin=5"
    assert [seen_by("1f", text) for text in (mine, old, "", "mine")] == [mine, old, "", "mine"]
    assert seen_by("", mine) == mine
    assert seen_by("2e", mine) == "roost:other owner=1f begin=5"
    assert parse_stamp(seen_by("2e", mine)) is None
