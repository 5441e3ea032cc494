"""messages.daemon_status: the model, the cluster and the shares of users that a status names."""

from roost_engine.domain.model import NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.stacks import OrderKind
from roostd.config.config import Config
from roostd.config.decisions import OrderSection
from roostd.rpc.messages import daemon_status
from roostd.state import DaemonState


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
