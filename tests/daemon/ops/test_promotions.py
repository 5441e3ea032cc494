"""promotions: kept whole, read back, and lost loudly."""

from dataclasses import replace
from pathlib import Path

import pytest

from roost_engine.domain.errors import JournalError
from roost_engine.policies.canary import Slot
from roostd.ops.promotions import (
    FILE_NAME,
    Promotion,
    Promotions,
    Rollback,
    read_promotions,
    write_promotions,
)

LAS = Promotion(slot=Slot.ORDER, name="las", by="ann", at_epoch_s=1.0)
OPEN = Promotion(slot=Slot.GATE, name="open", share_frac=0.1)
BACK = Rollback(slot=Slot.ORDER, policy="order:las", at_epoch_s=2.0, by="ann", reason="slow")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = Promotions().with_promotion(LAS).with_promotion(OPEN)
    write_promotions(tmp_path, kept)
    assert read_promotions(tmp_path) == (kept, "")
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert kept.all() == (LAS, OPEN)


def test_without_a_file_nothing_is_promoted(tmp_path: Path) -> None:
    assert read_promotions(tmp_path) == (Promotions(), "")


@pytest.mark.parametrize("content", [b"", b"x" * 40, b"x" * ((1 << 20) + 1)])
def test_a_damaged_file_is_put_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    found, fault = read_promotions(tmp_path)
    assert found == Promotions()
    assert "the configured policies decide" in fault
    assert (tmp_path / f"{FILE_NAME}.damaged").read_bytes() == content


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    write_promotions(tmp_path, Promotions().with_promotion(LAS))
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        assert read_promotions(tmp_path)[1]


def test_a_folder_that_takes_nothing_keeps_the_old_file(tmp_path: Path) -> None:
    write_promotions(tmp_path, Promotions().with_promotion(LAS))
    (tmp_path / f"{FILE_NAME}.new").mkdir()
    with pytest.raises(JournalError, match="nothing was changed"):
        write_promotions(tmp_path, Promotions())
    assert read_promotions(tmp_path)[0].promoted == {Slot.ORDER: LAS}


def test_a_promotion_for_all_ends_the_canary_of_its_slot_only() -> None:
    canary = replace(LAS, share_frac=0.1)
    assert Promotions(canary=canary).with_promotion(LAS).canary is None
    assert Promotions(canary=OPEN).with_promotion(LAS).canary == OPEN


def test_a_rollback_takes_out_the_promotion_that_it_is_of() -> None:
    canary = replace(OPEN, slot=LAS.slot, share_frac=0.1)
    both = Promotions().with_promotion(LAS).with_promotion(canary)
    without_canary = both.without(canary, BACK)
    assert (without_canary.canary, without_canary.promoted) == (None, {Slot.ORDER: LAS})
    without_las = both.without(LAS, BACK)
    assert (without_las.canary, without_las.promoted) == (canary, {})
    assert without_las.rollbacks == {Slot.ORDER: BACK}
