"""policy_names: every policy has one name, and a wrong one is answered with the right ones."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import UnknownPolicy
from roost_engine.policies.canary import Slot
from roostd.config.config import Config
from roostd.config.policy_names import (
    PolicyName,
    find_policy,
    known_policies,
    policy_of,
    with_policy,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("las", PolicyName(Slot.ORDER, "las")),
        ("gate:dally", PolicyName(Slot.GATE, "dally")),
        ("preemption:none", PolicyName(Slot.PREEMPTION, "none")),
        ("score:none", PolicyName(Slot.SCORE, "none")),
        ("strict", PolicyName(Slot.PLACEMENT, "strict")),
    ],
)
def test_names(tmp_path: Path, text: str, found: PolicyName) -> None:
    assert find_policy(text, tmp_path) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("none", "ambiguous: want score:none or preemption:none"),
        ("fastest", "no policy fastest; there are order:priority"),
        ("order:dally", "no policy order:dally"),
        ("cpu:las", "no slot cpu; there are order, placement, gate, score, preemption"),
        ("../../etc/passwd", "no policy"),
    ],
)
def test_wrong_names(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UnknownPolicy, match=words):
        find_policy(text, tmp_path)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ('{"kind": "runtimes"}', "kind runtimes has no slot"),
        ("[1]", "names no kind"),
        ("{", "cannot be read"),
        (" " * ((1 << 20) + 1), "larger than 1 MiB"),
        (None, "cannot be read"),
    ],
)
def test_models_that_have_no_slot(tmp_path: Path, manifest: str | None, words: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.onnx").write_bytes(b"")
    if manifest is not None:
        (folder / "mine.json").write_text(manifest)
    with pytest.raises(UnknownPolicy, match=words):
        find_policy("mine", tmp_path)


def test_a_model_has_the_slot_of_its_kind(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, manifest in (("a", '{"kind": "order"}'), ("b", "{}")):
        (folder / f"{name}.onnx").write_bytes(b"")
        (folder / f"{name}.json").write_text(manifest)
    assert str(find_policy("a", tmp_path)) == "order:a"
    assert find_policy("score:b", tmp_path).path == str(folder / "b.onnx")


def test_every_policy_of_roost_can_be_put_into_a_configuration(tmp_path: Path) -> None:
    for policy in known_policies(tmp_path):
        if policy.slot is Slot.ORDER and policy.path:
            assert with_policy(Config(), policy) == Config()  # a model decides in place of the kind
            continue
        assert policy_of(with_policy(Config(), policy), policy.slot) == policy


@pytest.mark.parametrize("slot", [slot for slot in Slot if slot is not Slot.SCORE])
def test_a_policy_that_only_another_version_has_is_unknown(slot: Slot) -> None:
    with pytest.raises(UnknownPolicy, match=f"no policy {slot}:later in this version"):
        with_policy(Config(), PolicyName(slot, "later"))
