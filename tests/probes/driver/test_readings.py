"""Readings of the driver as lines between the NVML process and the probe."""

import pytest

from roost_probe.driver.readings import (
    DriverFacts,
    DriverLoad,
    GpuFacts,
    GpuLoad,
    LaneEnd,
    LaneFacts,
    Unavailable,
    decode_facts,
    decode_load,
    encode,
)
from roost_probe.errors import DriverFault

FACTS = DriverFacts(
    driver_version="580.95.05",
    gpus=(
        GpuFacts(
            uuid="GPU-a",
            memory_bytes=80 << 30,
            numa_nodes=(0, 1),
            mig_enabled=False,
            lanes=(LaneFacts(remote=LaneEnd.SWITCH, remote_bus_id=None),),
            levels=(None, 40),
        ),
        GpuFacts(),
    ),
    problems=("GPU 1 is lost",),
)
LOAD = DriverLoad(
    at_s=12.5,
    gpus=(GpuLoad(sm_frac=0.0, nvlink_tx_bytes=1 << 60), GpuLoad(lost=True)),
    xids=((1, 79),),
)


def test_readings_come_back_as_they_were_written() -> None:
    assert decode_facts(encode(FACTS)) == FACTS
    assert decode_load(encode(LOAD)) == LOAD


def test_a_reading_is_one_line() -> None:
    facts = DriverFacts(problems=("two\nlines",))
    assert encode(facts).count(b"\n") == 1
    assert decode_facts(encode(facts)) == facts


def test_an_unavailable_driver_is_a_fault_with_its_reason() -> None:
    line = encode(Unavailable(problem="libnvidia-ml.so.1 was not found"))
    for decode in (decode_facts, decode_load):
        with pytest.raises(DriverFault, match=r"^libnvidia-ml\.so\.1 was not found$"):
            decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Segmentation fault\n",
        b"[1]\n",
        b"{}\n",
        b"\xff\n",
        encode(LOAD).replace(b"at_s", b"at"),
        encode(LOAD).replace(b"sm_frac", b"surprise"),
        encode(LOAD).replace(b"[1,79]", b"[1]"),
    ],
)
def test_a_damaged_load_is_a_fault(line: bytes) -> None:
    with pytest.raises(DriverFault, match="answered nonsense"):
        decode_load(line)


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        encode(FACTS).replace(b"lanes", b"lines"),
        encode(FACTS).replace(b'"switch"', b'"moon"'),
        encode(FACTS).replace(b"[0,1]", b"7"),
    ],
)
def test_damaged_facts_are_a_fault(line: bytes) -> None:
    with pytest.raises(DriverFault, match="answered nonsense"):
        decode_facts(line)
