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
from roost_formats.journal.journal import ACTIONS
from roost_proto.v1 import telemetry_pb2 as probe_pb
from roost_sim.cli import cli
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay import Replay, replay
from roostd.testing.slurm_stand_in import Fault, SlurmStandIn


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
    length = int.from_bytes(record[:4], "little")
    head, arrays = record[4 : 4 + length], record[4 + length :]
    older = head.replace(b',"fallback_reason":""', b"")
    assert older != head
    rewrite(path, "actions", sequence, len(older).to_bytes(4, "little") + older + arrays)

    assert replayed(path).difference is None


def gated(folder: Path, gate: DelayConfig | DallyConfig) -> Path:
    """Thirty gangs that fit into a rack or, at once, across racks."""
    gangs = (arrival(str(n), n * 5.0, 60.0 + n, 8, shape(4, 2), shape(2, 4)) for n in range(30))
    with WrittenJournal(folder, plugins=Plugins(gate=gate)) as journal:
        journal.simulate(cluster(8, racks=4), *gangs)
        return journal.path


@pytest.mark.parametrize("gate", [DelayConfig(), DallyConfig()], ids=["delay", "dally"])
def test_a_gate_that_learns_is_repeated(tmp_path: Path, gate: DelayConfig | DallyConfig) -> None:
    assert replayed(gated(tmp_path, gate)).difference is None


def test_the_gate_that_is_repeated_is_the_one_of_the_run(tmp_path: Path) -> None:
    path = gated(tmp_path, DallyConfig())
    journal = Journal.open(tmp_path)
    journal._db.execute("DELETE FROM run_plugins")
    journal.close()
    difference = replayed(path).difference
    assert difference is not None
    assert difference.policies == ("gate: recorded dally, here open",)
    assert "  policy    gate: recorded dally, here open\n" in run(path).stdout


def test_a_difference_under_the_recorded_policies_names_none(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    sequence, _, _ = first_place(path)
    rewrite(path, "actions", sequence, encode(()))
    difference = replayed(path).difference
    assert difference is not None
    assert difference.policies == ()
    assert "\n  policy " not in run(path).stdout


class Failing:
    """A model that is too slow for its third answer."""

    def __init__(self, model: ScorePolicy) -> None:
        self.name, self._model, self._count = model.name, model, 0

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        self._count += 1
        if self._count == 3:
            raise PolicyError("took 12.0 ms, more than 10 ms 3 times in a row")
        return self._model.score(features)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return install_model(tmp_path / "model", OTHER_MODEL)


@pytest.fixture
def scored(tmp_path: Path, model: Path) -> Path:
    """A journal whose decisions a model made, and once the heuristic in its place."""
    score = Failing(load_onnx_score(model, clock=lambda: 0.0))
    return a_busy_day(tmp_path, Policies(score=score))


def test_a_model_and_its_failures_are_repeated(scored: Path, model: Path) -> None:
    found = replayed(scored, model)
    assert found.difference is None
    assert found.runs[0].policy.startswith("onnx:")


def test_a_model_that_is_not_at_hand_is_asked_for(scored: Path) -> None:
    result = run(scored)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{scored}: run 1 was scored by onnx:" in result.stderr
    assert "that model is not at hand" in result.stderr
    assert "give its file, with the manifest beside it, by --model FILE" in result.stderr


def test_a_model_file_that_is_not_there_is_named(scored: Path, tmp_path: Path) -> None:
    result = run(scored, "--model", tmp_path / "none.onnx")
    assert result.exit_code == 2
    assert f"{tmp_path / 'none.onnx'}: No such file" in result.stderr


def test_without_the_runtime_a_model_cannot_be_repeated(
    scored: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "roost_formats.models.onnx_session", raising=False)
    with pytest.raises(RecordingError, match=r"onnxruntime cannot be imported.*roost\[daemon\]"):
        replayed(scored, model)


def test_the_heuristic_is_repeated_without_the_daemons_libraries(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    missing = ("onnxruntime", "grpc", "google", "structlog", "prometheus_client")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
        "from roost_sim.cli import main; main()"
    )
    for arguments in ((), ("--policy", "sjf")):
        subprocess.run(
            [sys.executable, "-c", program, "replay", path, *arguments],
            check=True,
            capture_output=True,
        )


def truncated(path: Path) -> Path:
    os.truncate(a_busy_day(path.parent), 20_000)
    return path


def damaged(path: Path) -> Path:
    rewrite(a_busy_day(path.parent), "event", 7, b"\x05\x00")
    return path


def empty(path: Path) -> Path:
    path.touch()
    return path


def foreign(path: Path) -> Path:
    path.write_text("submit_s,duration_s,num_gpus\n")
    return path


def fresh(path: Path) -> Path:
    with WrittenJournal(path.parent):
        return path


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (truncated, "was cut short; copy it anew"),
        (damaged, "entry 7: record cannot be read"),
        (empty, "the file is empty; want journal.sqlite of roostd's paths.state_dir"),
        (foreign, "is no journal of roostd; want journal.sqlite"),
        (fresh, "holds no event yet; let roostd run for a while"),
        (lambda path: path, "No such file or directory; want journal.sqlite"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--policy", "sjf"]])
def test_what_cannot_be_repeated_is_one_line(
    tmp_path: Path, make: object, complaint: str, options: list[str]
) -> None:
    assert callable(make)
    result = run(make(tmp_path / FILE_NAME), *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"roost-sim: {tmp_path / FILE_NAME}: ")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
