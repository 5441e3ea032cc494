"""The engine decides as recorded: twenty-nine policies on three traces, and two journals."""

import json
import lzma
from pathlib import Path

import pytest
from tests.engine.decisions import POLICIES, TRACES, digest_of

from roost_sim.replays.recording import ModelShelf, Recording, RepeatedRun
from roost_sim.replays.replay import replay

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "decisions.json"
JOURNALS = [HERE / "journals" / f"{name}.sqlite.xz" for name in ("busy-day", "one-history")]
# The gate had a predictor of run times of its own then: the same events have other answers now.
EARLIER = HERE / "journals" / "delay-and-preemption.sqlite.xz"


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> dict[str, object]:
    if request.config.getoption("--update-golden"):
        found = {
            f"{trace}: {policy}": digest_of(trace, policy)
            for trace in TRACES
            for policy in POLICIES
        }
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    known: dict[str, object] = json.loads(GOLDEN.read_text())
    return known


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trace", TRACES)
def test_a_policy_decides_as_recorded(golden: dict[str, object], trace: str, policy: str) -> None:
    assert digest_of(trace, policy) == golden[f"{trace}: {policy}"]


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_journal_is_reproduced(path: Path, tmp_path: Path) -> None:
    with Recording(unpacked(path, tmp_path)) as recording:
        found = replay(recording, ModelShelf(), lambda count: None)
        assert found.event_count == recording.event_count > 300
    assert found.difference is None
    assert found.action_count > 100


def test_a_journal_of_an_earlier_version_is_read_to_its_end(tmp_path: Path) -> None:
    with Recording(unpacked(EARLIER, tmp_path)) as recording:
        (run,) = (run for run in recording.runs if run.step_count)
        again = RepeatedRun(recording, run, ModelShelf())
        for entry in recording.entries(run):
            recording.actions(entry)
            again.step(entry, recording.event(entry))
        again.engine.check_invariants()


def unpacked(path: Path, folder: Path) -> Path:
    """Write a recorded journal into a folder."""
    plain = folder / path.stem
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    return plain
