"""What an operator can set: frozen models.

roostd.config.loaded_config reads them from flags, environment and file. Page:
docs/configuration.md; example: deploy/roostd.yaml. A test compares keys, defaults and descriptions
of the three.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
)

from roost_engine.plugins.stacks import DEFAULT, STACKS
from roost_slurm.text.hostlist import expand
from roostd.config.decisions import (
    EngineSection,
    GateSection,
    OrderSection,
    PlacementSection,
    PolicySection,
    PreemptionSection,
)
from roostd.config.listen import Listen
from roostd.config.roles import RolesSection
from roostd.config.sharing import SharingSection
from roostd.config.stack_choice import StackChoice, known_stack
from roostd.config.values import (
    AbsolutePath,
    Count,
    Factor,
    LogFormat,
    LogLevel,
    LoopbackPort,
    PartitionName,
    Seconds,
    SecondsFromZero,
    Section,
    host_list,
)


class Mode(StrEnum):
    """What roostd does with the jobs of a partition."""

    OFF = "off"  # nothing
    SHADOW = "shadow"  # decides and records, changes no job
    ADVISE = "advise"  # also writes the choice into the job's admin comment
    ENFORCE = "enforce"  # makes Slurm start the job on the chosen GPUs


AnyMode = Annotated[Mode, Field(strict=False)]


class Slurm(Section):
    """How the daemon talks to Slurm."""

    conf: AbsolutePath | None = Field(
        default=None,
        description="slurm.conf, given to the commands as SLURM_CONF; null: their default",
    )
    bin_dir: AbsolutePath = Field(
        default=Path("/usr/bin"), description="where scontrol and squeue are"
    )
    poll_interval_s: Annotated[float, Field(ge=0.1, le=3_600)] = Field(
        default=10.0, description="safety poll; the spool reports submissions and ends at once"
    )
    lease_s: Annotated[float, Field(ge=10, le=86_400)] = Field(
        default=60.0,
        description="a lease ends after this time, up to an hour for jobs behind 500 others,"
        " unless roostd renews it, which it does every third of that time",
    )
    first_lease_s: Annotated[float, Field(ge=3, le=86_400)] = Field(
        default=5.0,
        description="the lease that a new job gets, until roostd's first decision about it; no"
        " longer than lease_s",
    )
    hand_over_s: Seconds = Field(
        default=30.0,
        description="plain Slurm gets a job that it could have started for this long, or that one"
        " of Slurm's own limits, or on 22.05 the GPUs of its earlier pin, kept waiting for this"
        " long; a job that leaves its number of nodes open waits this long for fewer nodes",
    )
    short_run_s: SecondsFromZero = Field(
        default=10.0,
        description="jobs of one GPU whose kind (user, name, partition) last ran this long at most"
        " are started by Slurm while no other job waits; 0: Roost places each of them",
    )
    shadow_questions: bool = Field(
        default=True,
        description="ask Slurm with sbatch --test-only when it could start waiting jobs, a few"
        " in each poll_interval_s",
    )
    standing_pins: bool = Field(
        default=True,
        description="the next job waits in Slurm, pinned to GPUs that are still busy; before 24.11"
        " such a pin is final, and there is none where Roost may stop jobs",
    )
    command_timeout_s: Annotated[float, Field(ge=0.1, le=3_600)] = Field(
        default=10.0, description="after which a command counts as hung"
    )
    concurrent_pin_count: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, description="jobs that are pinned at the same time"
    )
    model_names: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="node features that users may write as a GPU model, gpu:a100:2",
    )


class Page(Section):
    """The web page for people; docs/operations.md."""

    listen: LoopbackPort | None = Field(
        default=None,
        description="loopback HOST:PORT of the read-only web page, such as 127.0.0.1:7473, open to"
        " every local user; null: none",
    )


class Paths(Section):
    """Folders."""

    runtime_dir: AbsolutePath = Field(
        default=Path("/run/roost"), description="heartbeat, spool and sockets; gone after a reboot"
    )
    state_dir: AbsolutePath = Field(default=Path("/var/lib/roost"), description="the journal")


class Partition(Section):
    """The settings that differ for one partition."""

    mode: AnyMode = Field(default=Mode.SHADOW, description="off, shadow, advise or enforce")
    nodes: Annotated[str, AfterValidator(host_list)] = Field(
        default="",
        description="nodes that Roost gives to jobs of this partition, as gpu[01-04]; a job that"
        " does not fit there is left to Slurm at once; empty: all",
    )
    preemption: bool = Field(
        default=False,
        description="running jobs that can continue from a checkpoint may be stopped for others",
    )


class Telemetry(Section):
    """What the daemon asks of probes."""

    sample_interval_s: Annotated[float, Field(ge=0.1, le=60)] = Field(
        default=1.0, description="how often a probe sends"
    )
    stale_after_s: Seconds = Field(
        default=10.0, description="older load counts as unknown, and the probe as silent"
    )
    process_interval_s: Annotated[float, Field(ge=0, le=3_600)] = Field(
        default=10.0,
        description="while sharing is enabled: how often a probe lists the processes of GPUs that"
        " jobs share, to know what each uses of their memory; it does so too where processes of no"
        " job hold memory; 0: never",
    )
    job_loads: bool = Field(
        default=False,
        description="report memory used, power, clocks and how the load of running jobs varies to"
        " the engine, for a model of neighbours trained on them; the one that ships is not",
    )
    activity_speed: bool = Field(
        default=False,
        description="estimate the speed of jobs that report none from the activity of their GPUs,"
        " where a model of neighbours decides; weak: docs/interference.md",
    )


class Eta(Section):
    """Forecasts of when jobs start and end."""

    enabled: bool = Field(
        default=True, description="whether roostctl eta has an answer; false: nothing is computed"
    )
    interval_s: Annotated[float, Field(ge=1, le=86_400)] = Field(
        default=30.0, description="from one forecast to the next"
    )
    draws: Annotated[int, Field(ge=3, le=1_000)] = Field(
        default=20, description="how often the queue is played forward, with drawn run times"
    )
    budget_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=1.0,
        description="seconds of a core for one forecast; with a long queue there are fewer draws",
    )
    admin_comment: bool = Field(
        default=False,
        description="whether each waiting job's admin comment says when it is expected to start",
    )
    comments_per_minute: Annotated[int, Field(ge=1, le=6_000)] = Field(
        default=30, description="admin comments written in a minute at most, with two commands each"
    )


Frac: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class PoliciesSection(Section):
    """How one policy takes over from another; docs/policies.md."""

    min_job_count: Annotated[Count, Field(ge=10)] = Field(
        default=100, description="a policy compared on fewer jobs is not promoted"
    )
    average_margin_frac: Frac = Field(
        default=0.01,
        description="the average completion time may be this much longer, at 95 % confidence",
    )
    p99_margin_frac: Frac = Field(
        default=0.05, description="the same for the 99th percentile of completion times"
    )
    canary_job_count: Count = Field(
        default=30,
        description="jobs of canary users that end before the policy may decide for all users",
    )
    loss_margin_frac: Frac = Field(
        default=0.1,
        description="a promoted policy is taken out when the fraction of completion time that jobs"
        " lose to waits and slow places exceeds the prediction by this much",
    )
    wait_limit_p99s: Annotated[Factor, Field(ge=1)] = Field(
        default=3.0,
        description="a promoted policy is taken out when one of its jobs has waited this many times"
        " the predicted 99th percentile of completion times",
    )
    wait_limit_s: Seconds = Field(
        default=600.0, description="no shorter wait than this takes a promoted policy out"
    )
    evaluation_max_age_s: Seconds = Field(
        default=2 * 86_400.0, description="an older comparison allows no promotion"
    )


class JournalSection(Section):
    """The record of every event and answer."""

    max_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 60)] = Field(
        default=1 << 30, description="the oldest runs are deleted when the file is larger"
    )
    max_age_s: Seconds = Field(
        default=30 * 86_400.0, description="runs that ended longer ago are deleted"
    )


class Log(Section):
    """Lines on standard error."""

    level: LogLevel = Field(default="info", description="debug, info, warning or error")
    format: LogFormat = Field(default="logfmt", description="logfmt or json")


class Config(Section):
    """The whole configuration."""

    cluster: str = Field(
        default="", description="name shown to operators; empty: Slurm's ClusterName"
    )
    mode: AnyMode = Field(default=Mode.SHADOW, description="mode of partitions that are not listed")
    stack: Annotated[str, AfterValidator(known_stack)] = Field(
        default=DEFAULT.name,
        description="which policies decide, unless the sections below say otherwise; docs/stacks.md"
        " lists the stacks",
    )
    partitions: dict[PartitionName, Partition] = Field(
        default_factory=dict, description="settings that differ, by partition name"
    )
    accounts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="accounts whose jobs Roost places, and no others; empty: all",
    )
    qos: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="QoS whose jobs Roost places, and no others; empty: all",
    )
    listen: Listen = Listen()
    roles: RolesSection = RolesSection()
    page: Page = Page()  # after the setting that its check reads
    slurm: Slurm = Slurm()
    paths: Paths = Paths()
    order: OrderSection = OrderSection()
    placement: PlacementSection = PlacementSection()
    policy: PolicySection = PolicySection()
    gate: GateSection = GateSection()
    preemption: PreemptionSection = PreemptionSection()
    sharing: SharingSection = SharingSection()
    telemetry: Telemetry = Telemetry()
    engine: EngineSection = EngineSection()
    eta: Eta = Eta()
    policies: PoliciesSection = PoliciesSection()
    journal: JournalSection = JournalSection()
    log: Log = Log()

    @field_validator("page")
    @classmethod
    def _check_page(cls, page: Page, info: ValidationInfo) -> Page:
        roles = info.data.get("roles")
        if page.listen is not None and roles is not None and roles.enabled:
            raise ValueError(
                "listen shows the jobs of all users to every local user, which roles.enabled does"
                " not allow; leave page.listen or roles.enabled out"
            )
        return page

    @field_validator("sharing")
    @classmethod
    def _check_sharing(cls, sharing: SharingSection, info: ValidationInfo) -> SharingSection:
        if sharing.enabled and sharing.pairs is None:
            raise ValueError("enabled shares nothing without pairs: name the table, or remove it")
        partitions = info.data.get("partitions", {}).values()
        if sharing.separate and not any(one.preemption for one in partitions):
            raise ValueError(
                "separate stops no job where no partition has preemption: true; set it, or remove"
                " sharing.separate"
            )
        return sharing

    def mode_of(self, partition: str) -> Mode:
        """Return the mode of a partition."""
        listed = self.partitions.get(partition)
        return self.mode if listed is None else listed.mode

    def listed_nodes(self) -> dict[str, frozenset[str]]:
        """Return the nodes that Roost gives to jobs, of each partition that lists some."""
        return {
            name: frozenset(expand(listed.nodes))
            for name, listed in self.partitions.items()
            if listed.nodes
        }

    def preempting_partitions(self) -> list[str]:
        """Return the partitions in which running jobs may be stopped for others."""
        return [name for name, listed in self.partitions.items() if listed.preemption]

    @property
    def choice(self) -> StackChoice:
        """Which policies decide."""
        return StackChoice(
            named=STACKS[self.stack],
            order=self.order,
            placement=self.placement,
            policy=self.policy,
            gate=self.gate,
            preemption=self.preemption,
            engine=self.engine,
            partitions=tuple(self.preempting_partitions()),
            separates=self.sharing.separate,
        )

    @property
    def operator_socket(self) -> Path:
        """The UNIX socket that people connect to."""
        return self.listen.operator_socket or self.paths.runtime_dir / "operator.sock"

    @property
    def admin_socket(self) -> Path:
        """The UNIX socket that administrators connect to."""
        return self.listen.admin_socket or self.paths.runtime_dir / "admin.sock"
