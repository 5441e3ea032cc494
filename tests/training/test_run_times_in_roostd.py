"""From a site's own jobs to a daemon that asks the model: train, check, configure, fall back."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.daemon.running import Running, config, running
from tests.training.run_time_traces import as_csv, repeating

from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roost_train.cli import main as roost_train
from roostd.cli import EXIT_OK
from roostd.cli import main as roostd
from roostd.testing.slurm_stand_in import SlurmStandIn

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    trace = folder / "jobs.csv"
    trace.write_text(as_csv(repeating()))
    arguments = ["--trace", str(trace), "--epochs", "2", "--out", str(folder / "model")]
    assert roost_train(["runtimes", *arguments]) == 0
    return folder / "model" / "runtimes.onnx"


async def predictor(daemon: Running) -> pb.SlotPolicy:
    async with daemon.operator() as operator:
        status = await operator.GetStatus(pb.GetStatusRequest())
    (found,) = (one for one in status.slots if one.slot == "run-times")
    return found


async def test_a_trained_model_predicts_in_a_daemon_and_one_with_nan_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text(f"order:\n  kind: learned\n  run_time_model: {trained}\n")
    assert roostd(["check-config", str(file)]) == EXIT_OK

    model = shutil.copytree(trained.parent, tmp_path / "model") / trained.name
    slurm = SlurmStandIn([builders.node("n1")])
    settings = config(tmp_path, order={"kind": "learned", "run_time_model": str(model)})
    async with running(slurm, settings) as daemon:
        await daemon.until_running(*slurm.submit(gpus_per_node=1, name="train"))
        found = await predictor(daemon)
        assert found.policy.startswith("onnx:")
        assert found.fault_count == 0

        _put_nan_into(model)
        engine = daemon.daemon.state.engine
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not engine, "a new engine")
        await daemon.until_running(*slurm.submit(gpus_per_node=1, name="train"))
        assert (await predictor(daemon)).policy == "history"
        assert "the history of run times answers alone" in daemon.daemon.state.run_times_fault

    file.write_text(f"order:\n  kind: learned\n  run_time_model: {model}\n")
    assert roostd(["check-config", str(file)]) != EXIT_OK
    assert f"{file}:3: order.run_time_model: {model}: " in capsys.readouterr().err


def _put_nan_into(model: Path) -> None:
    """Damage a weight, and let the manifest vouch for the file."""
    loaded = onnx.load(model)
    weight = loaded.graph.initializer[0]
    values = numpy_helper.to_array(weight).copy()
    values.reshape(-1)[0] = np.nan
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    before = model.read_bytes()
    onnx.save(loaded, model)
    after, manifest = model.read_bytes(), model.with_suffix(".json")
    text = manifest.read_text().replace(sha256(before).hexdigest(), sha256(after).hexdigest())
    manifest.write_text(text.replace(f'"size_bytes": {len(before)}', f'"size_bytes": {len(after)}'))
