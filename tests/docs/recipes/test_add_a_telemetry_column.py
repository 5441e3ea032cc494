"""docs/recipes/add-a-telemetry-column.md: columns may come and stay away, and the tables agree."""

import inspect
import typing
from dataclasses import fields

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from tests.daemon.rpc.probes import floats, hello, sample
from tests.docs.recipes.recipe import ROOT

from roost_engine.cluster.features import COLUMNS, LOAD_QUANTITIES, LOAD_SCOPES, load_fractions
from roost_engine.domain.errors import ProbeError
from roost_engine.domain.events import LOAD_COLUMNS
from roost_formats.testing.onnx_models import blob, number
from roost_probe.driver.readings import DriverLoad, GpuLoad
from roost_probe.node.sampler import Sampler
from roost_proto.v1 import operator_pb2, telemetry_pb2
from roostctl.documents.nodes import GpuDocument
from roostd.rpc.messages import nodes
from roostd.telemetry.probe_messages import check_sample, column, read_hello, read_load

ABSURD = 1e30
NOT_READ = {"throttle_reasons"}  # bits, of which any may be set; roostd does not use them


def columns() -> dict[str, FieldDescriptor]:
    """The columns of a sample that have a value for each GPU."""
    found = telemetry_pb2.Sample.DESCRIPTOR.fields_by_name
    kinds = ("FloatColumn", "UintColumn")
    return {
        name: field
        for name, field in found.items()
        if field.message_type is not None
        and field.message_type.name in kinds
        and not name.startswith("nic_")
    }


# -- step 1: probes and daemons of different ages ----------------------------------------------


def test_a_column_of_a_newer_probe_is_ignored() -> None:
    numbers = [field.number for field in telemetry_pb2.Sample.DESCRIPTOR.fields]
    newer = blob(max(numbers) + 1, number(1, 0b1111) + blob(2, np.ones(4, "<f4").tobytes()))
    known = read_hello(hello())
    plain = sample(power_w=floats(100.0, 200.0, None, 400.0))

    read = telemetry_pb2.Sample.FromString(plain.SerializeToString() + newer)

    assert read != plain  # the bytes are kept, not read
    check_sample(read, known)
    np.testing.assert_array_equal(
        read_load(read, known.order), read_load(plain, known.order), strict=True
    )
    assert column(read.power_w, known.order) == [100.0, 200.0, None, 400.0]


@pytest.mark.parametrize("name", columns())
def test_a_column_that_an_older_probe_does_not_send_is_unknown_not_zero(name: str) -> None:
    known = read_hello(hello())
    without = sample()
    without.ClearField(name)  # type: ignore[arg-type]

    check_sample(without, known)
    assert column(getattr(without, name), known.order) == [None] * 4


def test_what_no_probe_reports_is_unknown_to_the_engine() -> None:
    silent = telemetry_pb2.Sample(sequence=1, gpu_count=4)
    load = read_load(silent, read_hello(hello()).order)
    assert load.shape == (4, len(LOAD_COLUMNS))
    assert np.isnan(load).all()


# -- steps 2 to 4: the probe's readings, and the daemon's limits -------------------------------


def test_every_column_comes_from_a_reading() -> None:
    readings = {field.name for field in fields(GpuLoad)}
    assert {name for name in columns() if name.removesuffix("_per_s") not in readings} == set()


@pytest.mark.parametrize("name", columns())
def test_the_probe_leaves_out_what_the_driver_did_not_say(name: str) -> None:
    packed = Sampler().sample(DriverLoad(at_s=1.0, gpus=(GpuLoad(),) * 2))
    assert getattr(packed, name).present_mask == 0
    assert len(getattr(packed, name).values) == 0


@pytest.mark.parametrize("name", sorted(columns().keys() - NOT_READ))
def test_every_column_that_is_read_has_a_limit(name: str) -> None:
    absurd = sample()
    packed = getattr(absurd, name)
    packed.present_mask = 1
    is_float = isinstance(packed, telemetry_pb2.FloatColumn)
    packed.values[:] = [ABSURD if is_float else (1 << 64) - 1]
    with pytest.raises(ProbeError, match=name):
        check_sample(absurd, read_hello(hello()))


# -- step 5: what operators see ----------------------------------------------------------------


def test_operators_see_the_same_columns_everywhere() -> None:
    gpu = operator_pb2.NodeGpu.DESCRIPTOR.fields_by_name
    shown = [name for name in columns() if name in gpu]
    page = (ROOT / "docs" / "roostctl.md").read_text(encoding="utf-8")
    documented = typing.get_type_hints(GpuDocument)

    assert len(shown) >= 5
    for name in shown:
        assert gpu[name].has_presence, f"{name} must be optional: 0 is not unknown"
        assert f'"{name}"' in inspect.getsource(nodes)
        assert type(None) in typing.get_args(documented[name])
        assert f"`{name}`" in page


# -- step 6: what the score sees ---------------------------------------------------------------


def test_the_engines_load_has_one_fraction_for_each_of_its_columns() -> None:
    assert len(LOAD_COLUMNS) == len(LOAD_QUANTITIES)
    assert load_fractions(np.ones((4, len(LOAD_COLUMNS)), np.float32)).shape == (4, 4)
    scored = [f"{scope}_{quantity}_frac" for scope in LOAD_SCOPES for quantity in LOAD_QUANTITIES]
    assert [name for name in COLUMNS if name in scored] == scored


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("sm_frac", 0),
        ("memory_activity_frac", 1),
        ("pcie_rx_bytes_per_s", 2),
        ("nvlink_tx_bytes_per_s", 3),
    ],
)
def test_a_column_that_the_score_sees_reaches_its_place_in_the_load(
    name: str, position: int
) -> None:
    told = telemetry_pb2.Sample(sequence=1, gpu_count=4)
    getattr(told, name).CopyFrom(floats(1.0, 1.0, 1.0, 1.0))
    load = read_load(told, read_hello(hello()).order)
    assert np.isfinite(load).all(axis=0).tolist() == [at == position for at in range(4)]
