"""Journals for tests: what an engine was told and answered, written as roostd writes it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.actions import Action, PolicyFailed
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId, JobSpec, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Plugins, Policies
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.records import RunHead, Step
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.world import FullSpeed

EPOCH_S = 1_800_000_000.0


class _WrittenEngine(Engine):
    """An engine that remembers its steps."""

    def __init__(self, config: EngineConfig, policies: Policies) -> None:
        super().__init__(config, policies)
        self.steps: list[Step] = []

    def step(self, event: Event) -> tuple[Action, ...]:
        actions = super().step(event)
        self.steps.append(Step(event, actions))
        # A daemon continues when a policy fails; the simulator would stop with an error.
        return tuple(action for action in actions if not isinstance(action, PolicyFailed))


class WrittenJournal:
    """A journal and the engine that fills it; each run begins with a fresh one.

    A run is written when it is over, in one transaction: a sync for each step costs more than all
    the rest of a test.
    """

    def __init__(
        self,
        folder: Path,
        *,
        config: EngineConfig | None = None,
        policies: Policies | None = None,
        plugins: Plugins | None = None,
        version: str = "0.1.0",
        as_run: Callable[[Policies], Policies] | None = None,
    ) -> None:
        """Begin a journal.

        Args:
            folder: where it is.
            config: of the engine.
            policies: of the engine, if `plugins` are not given.
            plugins: the choice of policies, as the head of each run names it.
            version: of the daemon.
            as_run: changes the policies that run, not what the head says of them.
        """
        self.path = folder / FILE_NAME
        self._config, self._policies = config or EngineConfig(), policies or Policies()
        self._plugins, self._version, self._as_run = plugins, version, as_run
        self.journal = Journal.open(folder)
        self._begin(0.0)

    def __enter__(self) -> "WrittenJournal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.journal.write(self.engine.steps)
        self.journal.close()

    def begin_run(self, began_s: float) -> None:
        """Begin a run like a daemon that starts again."""
        self.journal.write(self.engine.steps)
        self._begin(began_s)

    def _begin(self, began_s: float) -> None:
        policies = self._policies
        if self._plugins is not None:
            policies = self._plugins.policies(policies.score)
        if self._as_run is not None:
            policies = self._as_run(policies)
        engine = _WrittenEngine(self._config, policies)
        head = RunHead(
            version=self._version,
            policy=policies.score.name,
            epoch_of_zero_s=EPOCH_S,
            began_s=began_s,
            config=encode(self._config),
            plugins=b"" if self._plugins is None else encode(self._plugins),
            policies=engine.policy_names,
        )
        self.journal.write([head])
        self.engine = engine

    def feed(self, *events: Event) -> None:
        """Tell the engine what happens."""
        for event in events:
            self.engine.step(event)

    def queue(self, at_s: float, *specs: JobSpec) -> None:
        """Some jobs wait from now on."""
        self.feed(*(JobQueued(at_s=at_s, job=spec) for spec in specs))

    def start(self, at_s: float, job_id: str, *shares: NodeShare) -> None:
        """Slurm starts a job: as placed, or on these shares."""
        placement = self.engine.record(JobId(job_id)).placement if not shares else None
        held = shares_of(placement) if placement is not None else shares
        self.feed(JobStarted(at_s=at_s, job_id=JobId(job_id), shares=held))

    def end(self, at_s: float, *job_ids: str) -> None:
        """Some jobs end."""
        self.feed(*(JobEnded(at_s=at_s, job_id=JobId(job_id)) for job_id in job_ids))

    def simulate(
        self, cluster: Iterable[Event], *arrivals: Arrival, start_delay_s: float = 0.0
    ) -> None:
        """Let jobs arrive and run to their ends."""
        Driver(self.engine, FullSpeed(), start_delay_s=start_delay_s).run(cluster, arrivals)


def a_busy_day(folder: Path, policies: Policies | None = None) -> Path:
    """Forty jobs on two nodes, more than fit at once."""
    jobs = (arrival(str(n), n * 3.0, 20.0 + 7 * (n % 5), 1 + n % 8) for n in range(40))
    with WrittenJournal(folder, policies=policies) as journal:
        journal.simulate(cluster(2), *jobs, start_delay_s=0.5)
        return journal.path


def rewrite(path: Path, column: str, sequence: int, record: bytes) -> None:
    """Replace a column of an entry, as damage or another version would."""
    journal = Journal.open(path.parent)
    journal._db.execute(f"UPDATE entry SET {column} = ? WHERE sequence = ?", (record, sequence))
    journal.close()
