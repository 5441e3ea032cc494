"""messages.daemon_status: the model, the cluster and the shares of users that a status names."""

from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.stacks import OrderKind
from roostd.config.config import Config
from roostd.config.decisions import OrderSection
from roostd.rpc.messages import daemon_status
from roostd.state import DaemonState, UnmanagedJob


def test_status_tells_the_digest_of_a_model_and_none_for_the_heuristic(state: DaemonState) -> None:
    assert daemon_status.status(state).policy_sha256 == ""

    class Model:
        name = "onnx:0123456789ab"

    state.engine = Engine(EngineConfig(), Policies(score=Model()))  # type: ignore[arg-type]
    assert daemon_status.status(state).policy_sha256 == "0123456789ab"


def test_status_names_the_cluster_of_the_configuration_before_slurms(state: DaemonState) -> None:
    state.cluster = "of-slurm"
    assert daemon_status.status(state).cluster == "of-slurm"
    state.config = Config(cluster="of-file")
    assert daemon_status.status(state).cluster == "of-file"


def test_status_tells_of_shares_only_where_the_order_keeps_them(state: DaemonState) -> None:
    assert not daemon_status.status(state).HasField("share_user_count")
    section = OrderSection(kind=OrderKind.LEARNED, share_slack=1.5)
    state.config = state.config.model_copy(update={"order": section})
    assert daemon_status.status(state).HasField("share_user_count")
    assert daemon_status.status(state).share_user_count == 0
    state.share_count = 12
    assert daemon_status.status(state).share_user_count == 12


def test_status_tells_of_gpus_that_slurm_has_stranded(state: DaemonState) -> None:
    before = daemon_status.status(state).slurm_fault
    state.stranded_gpus = {NodeName("n1"): 4}
    assert daemon_status.status(state).slurm_fault == "; ".join(
        filter(None, (before, state.stranded_fault()))
    )
    assert "scontrol reconfigure" in state.stranded_fault()


def test_status_counts_the_waiting_jobs_that_are_left_to_slurm_by_reason(
    state: DaemonState,
) -> None:
    assert not daemon_status.status(state).left_jobs
    reasons = {
        "1": "names its GPUs itself: g3",
        "2": "names its GPUs itself: g1, g2; it is held",
        "3": "partition debug is off",
        "4": "asks for no GPUs",
    }
    state.unmanaged_reasons = {JobId(name): reason for name, reason in reasons.items()}
    state.unmanaged = {
        JobId(name): UnmanagedJob(reason=reason, is_blocked=False)
        for name, reason in reasons.items()
        if name != "4"
    }
    found = [(left.reason, left.job_count) for left in daemon_status.status(state).left_jobs]
    assert found == [("names its GPUs itself", 2), ("partition debug is off", 1)]

    many = [f"runs in reservation r{number}" for number in range(9)]
    state.unmanaged_reasons = {JobId(name): name for name in many}
    state.unmanaged = {JobId(name): UnmanagedJob(reason=name, is_blocked=False) for name in many}
    *_, last = daemon_status.status(state).left_jobs
    assert (last.reason, last.job_count) == ("other reasons", 3)
