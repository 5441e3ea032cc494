"""The delay gate's timers and beliefs in the words of operator.proto."""

from collections.abc import Iterator

from roost_engine.cluster.tiers import closest_tier
from roost_engine.domain.model import JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import TimerView
from roost_engine.prediction.speed.job_class import TimerClass
from roost_proto.v1 import operator_pb2 as pb
from roostd.state import DaemonState


def every(state: DaemonState) -> Iterator[pb.Timer]:
    """Yield the timers of every class that is known of; none where the gate has none."""
    timers, now_s = state.engine.policies.timers, state.clock.now_s()
    if timers is not None:
        for view in timers.views(now_s):
            yield _timer(view, now_s)


def one(state: DaemonState, wanted: TimerClass) -> pb.Timer:
    """Return the timer of one class, whether or not a job of it was seen."""
    found = (timer for timer in every(state) if timer.name == str(wanted))
    return next(found, pb.Timer(name=str(wanted)))


def sensitivity(state: DaemonState, job: JobSpec) -> pb.Sensitivity | None:
    """Return what is expected of a job's speed; None where no policy asks."""
    predictors = state.engine.policies.predictors
    if predictors is None:
        return None
    found = predictors.speed.estimate(job)
    speeds = found.speeds
    lost_frac = speeds.lost_frac(closest_tier(state.engine.cluster, job))
    return pb.Sensitivity(
        timer=str(TimerClass.of(job.gpu_count, lost_frac)),
        rack_frac=speeds.at(1) / speeds.at(0),
        across_frac=speeds.at(2) / speeds.at(0),
        source=found.source.value,
        confidence_frac=found.confidence_frac,
        run_count=found.run_count,
    )


def achieved(state: DaemonState, record: JobRecord) -> pb.Achieved | None:
    """Return how a job on several GPUs does that runs; None for any other."""
    if not record.is_on_gpus or record.spec.gpu_count < 2:
        return None
    message = pb.Achieved(
        nvlink_frac=record.nvlink_frac, pcie_frac=record.pcie_frac, nic_frac=record.nic_frac
    )
    predictors = state.engine.policies.predictors
    if predictors is not None:
        found = predictors.speed.achieved(record, *record.tiers)
        message.speed_frac, message.source = found.speed_frac, found.source.value
        message.confidence_frac = found.confidence_frac
    return message


def _timer(view: TimerView, now_s: float) -> pb.Timer:
    return pb.Timer(
        name=view.name,
        node_timer_s=view.node_timer_s,
        rack_timer_s=view.rack_timer_s,
        sample_count=view.sample_count,
        waited_count=view.waited_count,
        censored_frac=view.censored_frac,
        tuned_ago_s=None if view.tuned_s is None else max(now_s - view.tuned_s, 0.0),
        pinned_s=view.pinned_s,
        dally_node_timer_s=view.dally_node_timer_s,
        dally_rack_timer_s=view.dally_rack_timer_s,
    )
