"""Words, numbers and missing values in JSON."""

import pytest

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2
from roostctl.documents.values import finite, job_state_word, level_word, mode_word, real, whole


def test_enum_values_lose_their_prefix() -> None:
    assert mode_word(pb.MODE_ENFORCE) == "enforce"
    assert job_state_word(pb.JOB_STATE_LET_GO) == "let_go"
    assert level_word(telemetry_pb2.ANCESTOR_LEVEL_NUMA_NODE) == "numa_node"


def test_unspecified_is_null_and_an_unknown_value_keeps_its_number() -> None:
    assert mode_word(0) is None
    assert mode_word(99) == "unknown_99"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_null(value: float) -> None:
    assert finite(value) is None


def test_single_precision_has_seven_digits_and_seconds_have_milliseconds() -> None:
    gpu = pb.NodeGpu(sm_frac=0.3)
    assert gpu.sm_frac != 0.3
    assert real(gpu, "sm_frac") == 0.3
    precise = 12.345678901234
    assert real(pb.Job(wait_left_s=precise), "wait_left_s") == 12.346


def test_an_absent_field_is_null_and_a_zero_is_zero() -> None:
    assert real(pb.NodeGpu(), "sm_frac") is None
    assert real(pb.NodeGpu(sm_frac=0.0), "sm_frac") == 0.0
    assert whole(pb.NodeGpu(), "memory_bytes") is None
    assert whole(pb.NodeGpu(memory_bytes=0), "memory_bytes") == 0
