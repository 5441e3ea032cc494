"""Feeds telemetry.activity_speed with the activity of the GPUs of jobs that report no progress.

Only where `telemetry.activity_speed` is on and a model of neighbours decides. Left out are jobs
beside another one on a GPU, and on GPUs with processes of no job: the activity is of both. A probe
that is silent, or does not report the activity of a GPU, adds nothing.
"""

from collections import deque

from roost_engine.domain.model import JobId, NodeName
from roost_engine.job_record import JobRecord
from roost_engine.policies.neighbour_losses import PredictsLosses
from roostd.state import DaemonState
from roostd.telemetry.activity_speed import Activity
from roostd.telemetry.interference_predictions import InterferencePredictions
from roostd.telemetry.probe_messages import column

_POLLS_PER_ROUND = 60


class ActivityMeter:
    """See the module.

    Args:
        state: has the engine, the clock, the probes' newest reports, and the tracker.
    """

    def __init__(self, state: DaemonState) -> None:
        self._state, self._predictions = state, InterferencePredictions()
        self._round: deque[JobId] = deque()
        self._slice_count = 0
        self._on_node: dict[NodeName, set[JobId]] = {}  # when the round began
        self._sampled_s: dict[JobId, float] = {}

    def poll(self) -> None:
        """Sample the next part of the running jobs. To be called about once a second."""
        state = self._state
        score = state.engine.policies.score
        if not state.config.telemetry.activity_speed or not isinstance(score, PredictsLosses):
            return
        state.activity.use_model(score.name)
        if not self._round:
            self._begin_round()
        for _ in range(min(self._slice_count, len(self._round))):
            self._sample_job(self._round.popleft())

    def _begin_round(self) -> None:
        state = self._state
        cluster, self._on_node = state.engine.cluster, {}
        for job_id in cluster.held_jobs():
            for share in cluster.shares(job_id):
                self._on_node.setdefault(share.node, set()).add(job_id)
        records = [record for _, record in state.engine.records() if self._is_watched(record)]
        self._round.extend(record.job_id for record in records)
        self._slice_count = -(-len(records) // _POLLS_PER_ROUND)
        watched = frozenset(self._round)
        state.activity.keep(watched)
        self._sampled_s = {
            job_id: at_s for job_id, at_s in self._sampled_s.items() if job_id in watched
        }

    def _is_watched(self, record: JobRecord) -> bool:
        seats = self._state.engine.cluster.seats
        is_alone = seats is None or not seats.partners(record.job_id)
        return record.is_on_gpus and is_alone and not self._state.progress.knows(record.spec)

    def _sample_job(self, job_id: JobId) -> None:
        state = self._state
        record = state.engine.managed(job_id)
        if record is None or not self._is_watched(record):
            return
        found = self._activity(record)
        if found is None:
            return
        on_nodes = (self._on_node.get(share.node, set()) for share in record.shares)
        neighbours = frozenset[JobId]().union(*on_nodes) - {job_id}
        activity, gpu_model = found
        state.activity.add(
            record,
            gpu_model,
            neighbours,
            activity,
            state.clock.now_s(),
            lambda: self._predictions.of(state.engine, record),
        )

    def _activity(self, record: JobRecord) -> tuple[Activity, str] | None:
        """Return the mean activity of a job's GPUs and their model.

        None until each node has a new sample with the SM activity of all of them.
        """
        state, past_s = self._state, self._sampled_s.get(record.job_id, float("-inf"))
        busy, memory, model = list[float](), list[float | None](), ""
        for share in record.shares:
            report = state.board.live_report(share.node, state.config.telemetry.stale_after_s)
            if report is None or report.sample is None or report.sample_at_s <= past_s:
                return None
            sm_fracs = column(report.sample.sm_frac, report.hello.order)
            memory_fracs = column(report.sample.memory_activity_frac, report.hello.order)
            for gpu in share.gpu_indices:
                sm_frac = sm_fracs[gpu] if gpu < len(sm_fracs) else None
                if sm_frac is None or (share.node, gpu) in state.foreign:
                    return None
                busy.append(sm_frac)
                memory.append(memory_fracs[gpu])
                model = report.hello.gpus[gpu].model
        if not busy:
            return None
        self._sampled_s[record.job_id] = state.clock.now_s()
        known = [frac for frac in memory if frac is not None]
        memory_frac = sum(known) / len(known) if len(known) == len(memory) else None
        return Activity(sum(busy) / len(busy), memory_frac), model
