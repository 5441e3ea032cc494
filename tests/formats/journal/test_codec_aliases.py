"""Lazy type aliases in records: numpy 2.5 has them on Python 3.12 and later."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import TypeAliasType, TypeVar

from roost_formats.journal.codec import decode, encode

Scalar = TypeVar("Scalar", bound=np.generic)
LazyArray = TypeAliasType(
    "LazyArray", np.ndarray[tuple[int, ...], np.dtype[Scalar]], type_params=(Scalar,)
)


@dataclass(frozen=True)
class Load:
    """One record with an array."""

    rates: LazyArray[np.float32]


def test_reads_an_array_behind_a_lazy_alias() -> None:
    load = Load(rates=np.arange(3, dtype=np.float32))
    again = decode(encode(load), Load)
    assert isinstance(again.rates, np.ndarray)
    assert again.rates.tolist() == [0.0, 1.0, 2.0]
