"""What a throw-away cluster looks like, and the configuration files that say so.

Only settings that mean the same in Slurm 22.05 to 26.05 are written: lines whose value is the
default in one release and an error in another are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roost_slurm.testing.site_plan import (
    AccountingPlan,
    PowerSavingPlan,
    PreemptPlan,
    PriorityPlan,
)

# A /run of its own, as on another machine: slurmd links its copies there, and finds MUNGE there
# before it has a slurm.conf.
_CONFIGLESS = """
mount -t tmpfs none /run
mkdir /run/munge
ln -s "$1" /run/munge/munge.socket.2
unset SLURM_CONF
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One slurmd.

    With `links` the GPUs are described as a stock site would do it, one type for all (`model`) and
    a link count for each pair, so that Slurm itself chooses. Without `links`, GPU i has
    the type `gi`.
    """

    name: str
    gpu_count: int = 8
    cpu_count: int = 16
    socket_count: int = 1  # which share the CPUs evenly
    memory_mib: int = 64_000
    features: tuple[str, ...] = ()
    model: str = "a100"
    links: tuple[tuple[int, ...], ...] | None = None  # as in gres.conf Links=, -1 on the diagonal
    counted_model: str = ""  # a count-only gres of this name, one for each GPU
    shard_count: int = 0  # of all GPUs together
    gres: str | None = None  # replaces the Gres= that follows from the above
    state: str = "UNKNOWN"  # CLOUD: Slurm hides the node while it is powered down

    @property
    def slurm_gres(self) -> str:
        """The node's Gres= in slurm.conf; empty for a node without GPUs."""
        if self.gres is not None:
            return self.gres
        if self.links is not None:
            entries = [f"gpu:{self.model}:{self.gpu_count}"]
        else:
            entries = [f"gpu:g{i}:1" for i in range(self.gpu_count)]
        if self.counted_model:
            entries.append(f"{self.counted_model}:{self.gpu_count}")
        if self.shard_count:
            entries.append(f"shard:{self.shard_count}")
        return ",".join(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition. The first of a plan is the default one."""

    name: str = "main"
    nodes: tuple[str, ...] = ()  # empty: all of them
    options: str = ""  # appended as it is: "PriorityTier=10 MaxTime=60"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPlan:
    """Programs that Slurm runs around a job; None leaves the line out."""

    prolog: Path | None = None
    epilog: Path | None = None
    task_prolog: Path | None = None
    prolog_slurmctld: Path | None = None
    epilog_slurmctld: Path | None = None

    def lines(self) -> list[str]:
        """Lines of slurm.conf."""
        programs = {
            "Prolog": self.prolog,
            "Epilog": self.epilog,
            "TaskProlog": self.task_prolog,
            "PrologSlurmctld": self.prolog_slurmctld,
            "EpilogSlurmctld": self.epilog_slurmctld,
        }
        return [f"{key}={path}" for key, path in programs.items() if path is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Everything that can be chosen about a throw-away cluster."""

    nodes: tuple[NodePlan, ...]
    partitions: tuple[PartitionPlan, ...] = (PartitionPlan(),)
    racks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # leaf switch -> nodes
    job_submit_lua: str | None = None  # the script's text
    cli_filter_lua: str | None = None  # likewise
    hooks: HookPlan = field(default_factory=HookPlan)
    gres_conf: str | None = None  # replaces the gres.conf that follows from the nodes
    gres_types: str = "gpu"
    select_parameters: str = "CR_Core"
    # The stock batch_sched_delay=3 alone makes every start two seconds later.
    scheduler_parameters: str = "batch_sched_delay=0,sched_interval=2,bf_interval=2"
    prolog_flags: str = "Alloc"
    prolog_epilog_timeout_s: int = 30
    kill_wait_s: int = 2
    requeue_delay_s: int = 120  # how far ahead a requeued job begins: a credential's life time
    licenses: str = ""  # as in slurm.conf: "ansys:2,matlab:10"
    accounting: AccountingPlan | None = None
    priority: PriorityPlan | None = None
    preempt: PreemptPlan | None = None
    power_saving: PowerSavingPlan | None = None
    extra_lines: tuple[str, ...] = ()  # of slurm.conf
    extra_files: Mapping[str, str] = field(default_factory=dict)  # beside slurm.conf: their text
    is_configless: bool = False  # nodes have no file of Slurm's, and ask slurmctld for all of them
    cgroup_lines: tuple[str, ...] = ()  # of cgroup.conf, beside CgroupPlugin
    environment: Mapping[str, str] = field(default_factory=dict)  # of every daemon and command

    @classmethod
    def uniform(cls, node_count: int = 4, gpu_count: int = 8) -> "ClusterPlan":
        """Return nodes n1, n2, ... that are all alike."""
        names = (f"n{number}" for number in range(1, node_count + 1))
        return cls(nodes=tuple(NodePlan(name=name, gpu_count=gpu_count) for name in names))

    @property
    def counted_models(self) -> list[str]:
        """The names of the count-only gres."""
        return sorted({node.counted_model for node in self.nodes if node.counted_model})

    @property
    def other_gres(self) -> list[str]:
        """The names of all gres beside those of gres_types."""
        shards = ["shard"] if any(node.shard_count for node in self.nodes) else []
        return [*self.counted_models, *shards]

    @property
    def max_gpu_count(self) -> int:
        """GPUs of the biggest node: that many device files are made, shared by all nodes."""
        return max((node.gpu_count for node in self.nodes), default=0)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a cluster keeps its files."""

    root: Path

    @property
    def etc(self) -> Path:
        """slurm.conf, gres.conf and the rest."""
        return self.root / "etc"

    @property
    def slurm_conf(self) -> Path:
        """The value of SLURM_CONF."""
        return self.etc / "slurm.conf"

    @property
    def log(self) -> Path:
        """slurmctld.log, slurmd.NODE.log, munged.log."""
        return self.root / "log"

    @property
    def munge_socket(self) -> Path:
        """The socket of the cluster's own munged."""
        return self.root / "munge" / "socket"

    @property
    def suspend(self) -> Path:
        """SuspendProgram."""
        return self.etc / "suspend.sh"

    @property
    def resume(self) -> Path:
        """ResumeProgram."""
        return self.etc / "resume.sh"

    @property
    def power_log(self) -> Path:
        """What suspend and resume were asked for."""
        return self.log / "power.log"

    def device(self, index: int) -> Path:
        """Return a character device that stands for a GPU."""
        return self.root / "dev" / f"nvidia{index}"


def slurm_conf(
    plan: ClusterPlan, folder: RunFolder, first_port: int, *, loopback_only: bool = True
) -> str:
    """Render slurm.conf; the controller listens on first_port, node i on first_port + 1 + i.

    slurmdbd, where there is one, listens on the port after the nodes'.

    With `loopback_only` each daemon listens on the address that this machine's own name resolves
    to, which must be 127.0.0.1; else on every interface.
    """
    lines = [
        "ClusterName=local",
        "SlurmctldHost=localhost(127.0.0.1)",
        "SlurmUser=slurm",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={folder.munge_socket},cred_expire={plan.requeue_delay_s}",
        *(["CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"] if loopback_only else []),
        f"SlurmctldPort={first_port}",
        f"StateSaveLocation={folder.root}/state",
        f"SlurmdSpoolDir={folder.root}/spool/%n",
        f"SlurmctldPidFile={folder.root}/pids/slurmctld.pid",
        f"SlurmdPidFile={folder.root}/pids/slurmd.%n.pid",
        f"SlurmctldLogFile={folder.log}/slurmctld.log",
        f"SlurmdLogFile={folder.log}/slurmd.%n.log",
        "SlurmctldDebug=verbose",
        "SlurmdDebug=verbose",
        "SlurmdParameters=config_overrides",  # more CPUs than the machine has
        "ProctrackType=proctrack/linuxproc",  # needs no cgroup
        "SelectType=select/cons_tres",
        f"SelectTypeParameters={plan.select_parameters}",
        f"SchedulerParameters={plan.scheduler_parameters}",
        f"PrologFlags={plan.prolog_flags}",
        f"PrologEpilogTimeout={plan.prolog_epilog_timeout_s}",
        f"KillWait={plan.kill_wait_s}",
        f"GresTypes={','.join([plan.gres_types, *plan.other_gres])}",
        "ReturnToService=2",
        "InactiveLimit=0",
        "MaxJobCount=50000",
        "MailProg=/bin/true",
    ]
    if plan.is_configless:
        lines.append("SlurmctldParameters=enable_configless")
    if plan.racks:
        lines.append("TopologyPlugin=topology/tree")
    if plan.job_submit_lua is not None:
        lines.append("JobSubmitPlugins=lua")
    if plan.cli_filter_lua is not None:
        lines.append("CliFilterPlugins=cli_filter/lua")
    lines += plan.hooks.lines()
    lines += _site_lines(plan, folder, first_port + 1 + len(plan.nodes))
    lines += plan.extra_lines
    lines += [_node_line(node, first_port + 1 + i) for i, node in enumerate(plan.nodes)]
    lines += [_partition_line(part, i == 0) for i, part in enumerate(plan.partitions)]
    return "\n".join(lines) + "\n"


def _site_lines(plan: ClusterPlan, folder: RunFolder, slurmdbd_port: int) -> list[str]:
    lines = [f"Licenses={plan.licenses}"] if plan.licenses else []
    if plan.accounting is not None:
        lines += plan.accounting.lines(slurmdbd_port, folder.munge_socket)
    if plan.priority is not None:
        lines += plan.priority.lines()
    if plan.preempt is not None:
        lines += plan.preempt.lines()
    if plan.power_saving is not None:
        lines += plan.power_saving.lines(folder.suspend, folder.resume)
    return lines


def configless(slurmd: tuple[str, ...], folder: RunFolder, first_port: int) -> tuple[str, ...]:
    """Return the command that starts a slurmd as on a machine without slurm.conf."""
    script = ("unshare", "--mount", "sh", "-ec", _CONFIGLESS, "sh", str(folder.munge_socket))
    return (*script, *slurmd, "--conf-server", f"127.0.0.1:{first_port}")


def gres_conf(plan: ClusterPlan, folder: RunFolder) -> str:
    """Render gres.conf."""
    if plan.gres_conf is not None:
        return plan.gres_conf
    lines = ["AutoDetect=off"]
    for node in plan.nodes:
        for i in range(node.gpu_count):
            kind, links = f"g{i}", ""
            if node.links is not None:
                # Slurm looks at Links= only where the GPUs also have a Type= or Cores=.
                kind, links = node.model, f" Links={','.join(map(str, node.links[i]))}"
            lines.append(
                f"NodeName={node.name} Name=gpu Type={kind} File={folder.device(i)}{links}"
            )
        if node.counted_model:
            counted = f"Name={node.counted_model} Count={node.gpu_count} Flags=CountOnly"
            lines.append(f"NodeName={node.name} {counted}")
        if node.shard_count:
            lines.append(f"NodeName={node.name} Name=shard Count={node.shard_count}")
    return "\n".join(lines) + "\n"


def topology_conf(plan: ClusterPlan) -> str:
    """Render topology.conf: one leaf switch a rack under one root."""
    leaves = [f"SwitchName={rack} Nodes={','.join(nodes)}" for rack, nodes in plan.racks.items()]
    return "\n".join([*leaves, f"SwitchName=root Switches={','.join(plan.racks)}"]) + "\n"


def _node_line(node: NodePlan, port: int) -> str:
    line = (
        f"NodeName={node.name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port}"
        f" CPUs={node.cpu_count} Boards=1 SocketsPerBoard={node.socket_count}"
        f" CoresPerSocket={node.cpu_count // node.socket_count} ThreadsPerCore=1"
        f" RealMemory={node.memory_mib} State={node.state}"
    )
    if node.slurm_gres:
        line += f" Gres={node.slurm_gres}"
    if node.features:
        line += f" Feature={','.join(node.features)}"
    return line


def _partition_line(partition: PartitionPlan, default: bool) -> str:
    nodes = ",".join(partition.nodes) or "ALL"
    answer = "YES" if default else "NO"
    return (
        f"PartitionName={partition.name} Nodes={nodes} Default={answer} State=UP"
        f" {partition.options}"
    ).rstrip()
