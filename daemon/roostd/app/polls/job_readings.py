"""How jobs are read under the configuration in effect, and what these readings rest on."""

from collections.abc import Collection

from roost_slurm.text.versions import Traits
from roostd.config.config import Config
from roostd.slurm.jobs import JobReader
from roostd.slurm.rules.opt_in import OptIn
from roostd.state import DaemonState


def job_reader(state: DaemonState, traits: Traits, accounts_memory: bool) -> JobReader:
    """Return a reader that follows the configuration of a daemon, also after a reload.

    Args:
        state: the daemon's.
        traits: of the Slurm release.
        accounts_memory: whether Slurm counts memory.
    """
    return JobReader(
        to_engine_s=state.clock.to_engine_s,
        mode_of=lambda partition: state.config.mode_of(partition),
        traits=traits,
        accounts_memory=accounts_memory,
        is_preemptible_qos=lambda qos: _names(state.config.preemption.qos, qos),
        is_sharing_qos=lambda qos: _names(state.config.sharing.qos, qos),
        memory_of=lambda user_id, name, stated_bytes: state.gpu_memory.need_bytes(
            user_id, name, stated_bytes
        ),
        is_model=lambda name: name in map(str.lower, state.config.slurm.model_names),
        why_left=lambda job: OptIn(state.config.accounts, state.config.qos).why_not(job),
    )


def _names(listed: Collection[str], qos: str) -> bool:
    """Return whether roostd.yaml lists a QoS, in any case of letters: Slurm's are lower case."""
    return qos.lower() in map(str.lower, listed)


def settings_of_reads(config: Config) -> tuple[object, ...]:
    """Return the settings on which the readings of jobs rest.

    While they stay, a fresh engine gets the view of the last poll: reading 20,000 jobs again would
    keep the loop busy for seconds.
    """
    parts = config.mode, config.partitions, config.slurm, config.preemption
    return (*parts, config.sharing, config.accounts, config.qos, config.listed_nodes())
