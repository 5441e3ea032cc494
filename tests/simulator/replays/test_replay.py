"""A journal repeated: every action, the first that differs, and what it takes."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from tests.daemon.rpc.probes import hello, sample
from tests.daemon.running import config, running
from tests.simulator.journals import a_busy_day, rewrite

from roost_engine.domain.actions import Place
from roost_engine.domain.events import Tick
from roost_engine.domain.lazy import Lazy
from roost_engine.testing import builders
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.records import ACTIONS
from roost_proto.v1 import telemetry_pb2 as probe_pb
from roost_sim.cli import cli
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay import Replay, replay
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def replayed(path: Path, *models: Path) -> Replay:
    with Recording(path) as recording:
        return replay(recording, ModelShelf(models), lambda count: None)


def first_place(path: Path) -> tuple[int, int, bytes]:
    """Entry, its number in the run, and its actions, of the fifth step that places a job."""
    with Recording(path) as recording:
        placing = [
            (entry.sequence, number, entry.actions)
            for number, entry in enumerate(recording.entries(recording.runs[0]), 1)
            if b'"$":"Place"' in entry.actions
        ]
    return placing[4]


async def test_what_a_daemon_did_is_reproduced_over_its_restarts(tmp_path: Path) -> None:
    slurm = SlurmStandIn([builders.node("n1"), builders.node("n2")])
    slurm.inject("pin", Fault.REFUSED)
    settings = config(tmp_path, engine={"refusal_backoff_s": 0.05})
    for _ in range(2):
        async with running(slurm, settings) as daemon, daemon.telemetry() as stub:
            call = stub.Stream()
            await call.write(probe_pb.ProbeMessage(hello=hello("n1", 8, lanes={(2, 5): 4})))
            await call.read()
            await call.write(probe_pb.ProbeMessage(sample=sample(1, 8)))
            jobs = [job for gpus in (1, 2, 4) for job in slurm.submit(gpus_per_node=gpus)]
            await daemon.until_running(*jobs)
        slurm.end(jobs[0])

    result = run(settings.paths.state_dir, "--json")

    document = json.loads(result.stdout)
    assert (result.exit_code, document["reproduced"], document["difference"]) == (0, True, None)
    assert [one["policy"] for one in document["runs"]] == ["heuristic", "heuristic"]
    assert document["events"] == sum(one["events"] for one in document["runs"]) > 20
    assert document["actions"] >= 7  # six placements and one refusal


async def test_a_journal_is_repeated_while_its_daemon_writes_it(tmp_path: Path) -> None:
    slurm = SlurmStandIn([builders.node("n1")])
    settings = config(tmp_path)
    async with running(slurm, settings) as daemon:
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        during = await asyncio.to_thread(run, settings.paths.state_dir)
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
    after = run(settings.paths.state_dir)

    assert (during.exit_code, after.exit_code) == (0, 0), during.output
    assert during.stdout != after.stdout


def test_a_changed_action_is_found_and_shown(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, number, record = first_place(path)
    (place, *rest) = decode(record, ACTIONS)
    assert isinstance(place, Place)
    moved = replace(place.placement, nodes=(builders.node("n9").name,))
    rewrite(path, "actions", sequence, encode((replace(place, placement=moved), *rest)))

    result = run(path)
    difference = json.loads(run(path, "--json").stdout)["difference"]

    assert result.exit_code == 1
    assert f"event {number} (entry {sequence})" in result.stdout
    assert "differs   in placement.nodes" in result.stdout
    assert (difference["run"], difference["event"]) == (1, number)
    assert difference["fields"] == ["placement.nodes"]
    assert f"Place {place.job_id} on n9 GPUs" in difference["recorded"][0]
    assert f"Place {place.job_id} on {place.placement.nodes[0]} GPUs" in difference["got"][0]


def test_a_difference_under_the_recorded_policies_names_none(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, _ = first_place(path)
    rewrite(path, "actions", sequence, encode(()))
    difference = replayed(path).difference
    assert difference is not None
    assert difference.policies == ()
    assert "\n  policy " not in run(path).stdout


def test_the_last_bit_of_a_score_counts(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, record = first_place(path)
    (place, *rest) = decode(record, ACTIONS)
    assert isinstance(place, Place)
    scores = np.nextafter(place.decision.get().scores, np.float32(9.0))
    changed = replace(place, decision=Lazy.of(replace(place.decision.get(), scores=scores)))
    rewrite(path, "actions", sequence, encode((changed, *rest)))

    found = replayed(path).difference
    assert found is not None
    assert found.fields == ("decision.scores",)


def test_an_action_that_was_taken_out_is_missed(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, _ = first_place(path)
    rewrite(path, "actions", sequence, encode(()))

    found = replayed(path).difference
    assert found is not None
    assert (found.entry, found.recorded, found.fields) == (sequence, (), ())
    assert found.got


def test_a_changed_event_changes_what_follows(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, _ = first_place(path)
    rewrite(path, "event", sequence, encode(Tick(at_s=1e9)))
    assert run(path).exit_code == 1


def test_a_record_without_a_field_that_came_later_is_the_same(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, record = first_place(path)
    length = int.from_bytes(record[:4], "little") & ~(1 << 31)  # the bit: it has a checksum
    head, arrays = record[8 : 8 + length], record[8 + length :]
    older = head.replace(b',"fallback_reason":""', b"")
    assert older != head
    rewrite(path, "actions", sequence, len(older).to_bytes(4, "little") + older + arrays)

    assert replayed(path).difference is None
