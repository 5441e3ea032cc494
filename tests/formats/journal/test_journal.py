from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.actions import Place
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import (
    Event,
    GpuHealthChanged,
    JobEnded,
    JobQueued,
    LoadsSeen,
    NodeLost,
    PlacementRefused,
    Tick,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing import builders
from roost_engine.testing.builders import load_seen
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import RunHead, Step


def head(at_s: float = 0.0, epoch_s: float = 1_800_000_000.0) -> RunHead:
    return RunHead(
        version="0",
        policy="heuristic",
        epoch_of_zero_s=epoch_s,
        began_s=at_s,
        config=encode(EngineConfig()),
    )


def lived() -> tuple[list[Step], Engine]:
    """A short life of an engine with most kinds of event in it."""
    nodes = [builders.node(name) for name in ("n1", "n2", "n3")]
    harness = builders.EngineHarness(nodes, builders.bridges())
    engine = Engine(EngineConfig(), Policies())
    steps = [Step(event, engine.step(event)) for event in harness.events]

    def feed(event: Event) -> None:
        steps.append(Step(event, engine.step(event)))

    feed(load_seen(at_s=1.0, name=NodeName("n1"), load=np.full((8, 4), 0.5, dtype=np.float32)))
    feed(load_seen(at_s=1.0, name=NodeName("n2"), load=np.full((8, 4), np.nan, dtype=np.float32)))
    feed(GpuHealthChanged(at_s=1.5, name=NodeName("n1"), gpu_index=0, fault="XID 79"))
    for number, gpus in enumerate((1, 2, 4, 8, 8, 3)):
        job = builders.job(str(number), gpus=gpus, submit_s=2.0)
        feed(JobQueued(at_s=2.0 + number / 10, job=job))
    feed(PlacementRefused(at_s=3.0, job_id=JobId("1"), reason="no"))
    feed(JobEnded(at_s=3.5, job_id=JobId("3")))
    feed(NodeLost(at_s=4.0, name=NodeName("n3")))
    feed(Tick(at_s=20.0))
    return steps, engine


def read(folder: Path) -> list[list[Step]]:
    reader = JournalReader(folder / FILE_NAME)
    runs = [list(reader.steps(run)) for run in reader.runs()]
    reader.close()
    return runs


def test_every_event_and_action_survives_the_codec() -> None:
    steps, _ = lived()
    for step in steps:
        event: Event = decode(encode(step.event), Event)  # type: ignore[arg-type]
        assert encode(event) == encode(step.event)
        assert type(event) is type(step.event)


def test_arrays_come_back_as_they_were() -> None:
    load = np.array([[0.25, np.nan, 1e9, np.inf]], dtype=np.float32)
    event = load_seen(at_s=0.1 + 0.2, name=NodeName("n"), load=load)

    back = decode(encode(event), LoadsSeen)

    assert back.at_s == event.at_s
    assert back.load.dtype == np.float32
    np.testing.assert_array_equal(back.load, load[None])


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_a_damaged_record_is_an_error(cut: int) -> None:
    data = encode(load_seen(at_s=1.0, name=NodeName("n"), load=np.zeros((2, 4), np.float32)))

    with pytest.raises(JournalError, match="cannot be read"):
        decode(data[:cut], LoadsSeen)


def test_a_record_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(JournalError, match="unknown record 'EngineConfig'"):
        decode(encode(EngineConfig()), Event)  # type: ignore[arg-type]


def test_a_replay_reproduces_the_actions_byte_for_byte(tmp_path: Path) -> None:
    steps, _ = lived()
    journal = Journal.open(tmp_path)
    journal.write([head(), *steps])
    journal.close()

    reader = JournalReader(tmp_path / FILE_NAME)
    (run,) = reader.runs()
    engine = Engine(decode(run.head.config, EngineConfig), Policies())
    replayed = [
        (encode(step.actions), encode(engine.step(step.event))) for step in reader.steps(run)
    ]
    reader.close()

    assert len(replayed) == len(steps)
    assert all(recorded == again for recorded, again in replayed)
    assert any(isinstance(a, Place) for step in steps for a in step.actions)


def test_time_continues_where_it_stopped(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    assert (journal.last_at_s, journal.epoch_of_zero_s) == (0.0, None)
    journal.write([head(5.0), Step(Tick(at_s=77.5), ())])
    journal.close()

    again = Journal.open(tmp_path)

    assert (again.last_at_s, again.epoch_of_zero_s) == (77.5, 1_800_000_000.0)
    again.close()


def test_each_run_is_read_by_itself(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([head(0.0), Step(Tick(at_s=1.0), ())])
    journal.write([head(2.0), Step(Tick(at_s=3.0), ()), Step(Tick(at_s=4.0), ())])
    journal.close()

    assert [[step.event.at_s for step in run] for run in read(tmp_path)] == [[1.0], [3.0, 4.0]]


def test_the_last_placement_of_a_job_is_remembered(tmp_path: Path) -> None:
    steps, _ = lived()
    journal = Journal.open(tmp_path)
    journal.write([head(), *steps])
    journal.close()

    again = Journal.open(tmp_path)
    places = again.places([JobId("3"), JobId("unknown")])
    again.close()

    assert list(places) == ["3"]
    assert places[JobId("3")].placement.gpu_indices == tuple(range(8))


@pytest.mark.parametrize("damage", ["garbage", "flip", "zero"])
def test_a_damaged_file_is_put_aside_and_a_new_one_started(tmp_path: Path, damage: str) -> None:
    steps, _ = lived()
    journal = Journal.open(tmp_path)
    journal.write([head(), *steps])
    journal.close()
    file = tmp_path / FILE_NAME
    data = bytearray(file.read_bytes())
    if damage == "garbage":
        data = bytearray(b"this is no database" * 500)
    elif damage == "flip":
        data[4096:8192] = bytes(255 - byte for byte in data[4096:8192])
    else:
        data[4096:] = bytes(len(data) - 4096)
    file.write_bytes(data)

    again = Journal.open(tmp_path)

    assert again.quarantined is not None
    assert again.quarantined.read_bytes() == bytes(data)
    assert again.epoch_of_zero_s is None
    again.write([head(), Step(Tick(at_s=1.0), ())])
    again.close()
    assert len(read(tmp_path)) == 1


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=str(tmp_path / "none")):
        Journal.open(tmp_path / "none")


def test_a_full_disk_is_an_error_and_leaves_what_was_there(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([head(), Step(Tick(at_s=1.0), ())])
    limit_pages(journal, 1)
    load = np.zeros((8, 4), np.float32)
    many = [Step(load_seen(at_s=2.0, name=NodeName("n"), load=load), ()) for _ in range(5000)]

    with pytest.raises(JournalError, match="full"):
        journal.write(many)

    journal.close()
    assert [[step.event.at_s for step in run] for run in read(tmp_path)] == [[1.0]]


def limit_pages(journal: Journal, count: int) -> None:
    """Make SQLite behave as on a full disk; it keeps at least the pages it has."""
    journal._db.execute(f"PRAGMA max_page_count = {count}")


POLICIES = {"order": "priority", "gate": "delay", "score": "heuristic", "preemption": "none"}


def test_a_run_names_the_policy_of_each_slot(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([replace(head(), policies=POLICIES), head()])
    journal.close()

    with closing(JournalReader(tmp_path)) as reader:
        named, unnamed = reader.runs()
    assert (list(named.head.policies.items()), unnamed.head.policies) == (
        list(POLICIES.items()),
        {},
    )


def test_a_journal_of_before_the_slots_had_names_is_read_and_continued(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write([head(), Step(Tick(at_s=1.0), ())])
    journal._db.execute("DROP TABLE run_policies")
    journal.close()

    with closing(JournalReader(tmp_path)) as reader:
        assert [run.head.policies for run in reader.runs()] == [{}]
    journal = Journal.open(tmp_path)
    journal.write([replace(head(), policies=POLICIES)])
    journal.close()
    assert journal.quarantined is None
    with closing(JournalReader(tmp_path)) as reader:
        assert [run.head.policies for run in reader.runs()] == [{}, POLICIES]
