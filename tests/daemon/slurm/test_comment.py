"""What users write is read, or passed over with a sentence; never more than that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roostd.slurm.comment import JobComment, parse_comment


@pytest.mark.parametrize("text", ["", "project 7", "roost", "zroost:model=a", "see roost.md"])
def test_a_comment_that_is_not_for_roost_is_none(text: str) -> None:
    assert parse_comment(text) is None


@pytest.mark.parametrize(
    ("text", "model", "checkpoint_s"),
    [
        ("roost:model=bert,checkpoint=600", "bert", 600.0),
        ("roost:checkpoint=0.5", "", 0.5),
        ("project 7 roost:model=resnet-50 phase2", "resnet-50", None),
        ("a\nroost:model=meta/llama_3.1+x", "meta/llama_3.1+x", None),
    ],
)
def test_what_is_right_is_taken(text: str, model: str, checkpoint_s: float | None) -> None:
    assert parse_comment(text) == JobComment(model, checkpoint_s)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("roost:modle=bert", "'modle': unknown key, did you mean model?"),
        ("roost:colour=red", "'colour': unknown key, known are model, checkpoint, share, memory"),
        ("roost:checkpoint=10m", "checkpoint: want seconds above 0, such as 600, got '10m'"),
        ("roost:checkpoint=0", "checkpoint: want seconds above 0, such as 600, got '0'"),
        ("roost:checkpoint=-5", "checkpoint: want seconds above 0, such as 600, got '-5'"),
        ("roost:checkpoint=nan", "checkpoint: want seconds above 0, such as 600, got 'nan'"),
        ("roost:checkpoint=1e9", "checkpoint: want seconds above 0, such as 600, got '1e9'"),
        ("roost:model=", "model: want a name of letters, digits and _ . + / -, got ''"),
        ("roost:bert", "'bert': want KEY=VALUE, as in roost:model=bert,checkpoint=600"),
        ("roost:", "'': want KEY=VALUE, as in roost:model=bert,checkpoint=600"),
    ],
)
def test_nonsense_is_ignored_with_a_reason(text: str, problem: str) -> None:
    assert parse_comment(text) == JobComment(problems=(problem,))


def test_what_is_right_beside_nonsense_counts() -> None:
    found = parse_comment("roost:gpu=h100,checkpoint=60,model=a;b")
    assert found is not None
    assert (found.model, found.checkpoint_s, len(found.problems)) == ("", 60.0, 2)


def test_the_last_of_several_counts() -> None:
    found = parse_comment("roost:model=a roost:model=b,model=c")
    assert found is not None
    assert found.model == "c"
    assert found.problems == (
        "it says roost: 2 times; the last counts",
        "model: given twice; the last counts",
    )


@given(st.text().map(lambda text: f"roost:{text}"))
def test_no_text_breaks_anything_or_gets_through_to_a_terminal(text: str) -> None:
    found = parse_comment(text)
    assert found is not None
    assert len(found.problems) <= 8
    assert all(problem.isprintable() and len(problem) < 200 for problem in found.problems)


def test_a_job_opts_in_and_says_how_much_gpu_memory_it_needs() -> None:
    found = parse_comment("roost:share=yes,memory=20G,model=bert")
    assert found is not None
    assert (found.shares_gpus, found.gpu_memory_bytes, found.model) == (True, 20 << 30, "bert")
    assert found.problems == ()


@pytest.mark.parametrize("word", ["share=maybe", "memory=lots", "memory=0G", "memory=20"])
def test_an_unreadable_opt_in_is_none(word: str) -> None:
    found = parse_comment(f"roost:{word}")
    assert found is not None
    assert not found.shares_gpus
    assert found.gpu_memory_bytes == 0
    assert len(found.problems) == 1


@pytest.mark.parametrize(
    ("text", "stated"),
    [("model=bert", None), ("share=no", False), ("share=maybe", False), ("share=yes", True)],
)
def test_an_opt_out_is_not_silence(text: str, stated: bool | None) -> None:
    found = parse_comment(f"roost:{text}")
    assert found is not None
    assert found.shares_gpus is stated
