"""The daemon's metrics for Prometheus. docs/operations.md lists them; a test compares the two."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_DECISION_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_STALL_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SLURM_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_WAIT_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 600.0)


class Metrics:
    """Every metric of the daemon. No label holds a user or a job: the series stay few.

    Args:
        registry: where the metrics are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._add_decisions()
        self._add_slurm()
        self._add_telemetry()
        self._add_levels()
        self._add_faults()

    def _add_decisions(self) -> None:
        """Add the engine's events and decisions."""
        self.events = self._counter("events", "Events the engine was given", ["kind"])
        self.decisions = self._counter(
            "decisions", "Placements decided, by policy kind", ["policy"]
        )
        self.fallbacks = self._counter(
            "policy_fallbacks", "Decisions that the heuristic made because the model could not"
        )
        self.policy_faults = self._counter(
            "policy_faults",
            "Faults in slots order, gate, preemption and run-times; the heuristic answered",
            ["slot"],
        )
        self.policies = self._gauge(
            "policy_info", "1 for the policy that serves each slot", ["slot", "policy"]
        )
        self.decision_s = self._histogram(
            "decision", "Time of an engine step that placed a job", _DECISION_BUCKETS_S
        )
        self.mismatches = self._counter(
            "allocation_mismatches", "Jobs that Slurm started on other GPUs than decided"
        )
        self.watched_starts = self._counter(
            "watched_starts",
            "Jobs that Slurm started in modes shadow and advise, by the GPUs: chosen, other",
            ["gpus"],
        )
        self.released = self._counter("jobs_let_go", "Jobs released to plain Slurm")
        self.hand_overs = self._counter(
            "hand_overs",
            "Jobs left to plain Slurm after a wait, by cause: engine, limit, shadow",
            ["cause"],
        )
        self.beyond_slurm_s = self._histogram(
            "wait_beyond_slurm",
            "Wait of a job beyond the time at which plain Slurm could have started it",
            _WAIT_BUCKETS_S,
        )
        self.jobs_beyond_slurm = self._gauge(
            "jobs_beyond_slurm", "Waiting jobs that plain Slurm could have started by now"
        )

    def _add_slurm(self) -> None:
        """Add the requests to Slurm and their outcomes."""
        self.pins = self._counter(
            "pins",
            "Placements carried out in Slurm, by outcome: pinned, standing, refused, gone",
            ["outcome"],
        )
        self.pin_s = self._histogram("pin", "Time that Slurm took to accept a pin")
        self.preemptions = self._counter(
            "preemptions",
            "Running jobs that Slurm was asked to stop, by outcome: stopped, refused",
            ["outcome"],
        )
        self.lease_renewals = self._counter("lease_renewals", "Leases renewed")
        self.slurm_failures = self._counter(
            "slurm_failures",
            "Slurm commands that failed or hung, by what was asked",
            ["operation"],
        )
        self.slurm_poll_s = self._histogram(
            "slurm_poll", "Time of one poll of Slurm's queue and nodes"
        )

    def _add_telemetry(self) -> None:
        """Add the messages of probes."""
        self.samples = self._counter("telemetry_samples", "Samples accepted from probes")
        self.samples_rejected = self._counter(
            "telemetry_rejected", "Messages from probes that were not used, by reason", ["reason"]
        )
        self.resyncs = self._counter("telemetry_resyncs", "Hellos asked for again")
        self.streams = self._gauge("probe_streams", "Probe streams open")

    def _add_levels(self) -> None:
        """Add the present numbers of jobs, nodes, GPUs and queued events."""
        self.jobs = self._gauge("jobs", "Jobs by state", ["state"])
        self.standing_pins = self._gauge(
            "standing_pins", "Jobs that wait in Slurm for GPUs that other jobs hold"
        )
        self.held_back = self._gauge(
            "jobs_held_back", "Waiting jobs that one of Slurm's own rules holds back"
        )
        self.nodes = self._gauge("nodes", "Nodes that Slurm names")
        self.gpus = self._gauge("gpus", "GPUs of usable nodes", ["state"])
        self.wasted = self._counter(
            "wasted_gpu_seconds",
            "GPU-seconds by kind: held, and what of it was idle, unknown, split or lost by "
            "neighbours; unreachable and half_free of free GPUs; foreign, with memory of no job",
            ["kind"],
        )
        self.foreign_memory_gpus = self._gauge(
            "foreign_memory_gpus", "GPUs whose memory processes of no Slurm job hold", ["state"]
        )
        self.loop_stall_s = self._histogram(
            "loop_stall", "Delay of the event loop, looked at every 50 ms", _STALL_BUCKETS_S
        )
        self.longest_stall_s = self._gauge(
            "loop_stall_longest_seconds", "The longest delay of the event loop since the start"
        )
        self.queue_length = self._gauge(
            "event_queue_length", "Events not given to the engine yet, but for those of a reload"
        )

    def _add_faults(self) -> None:
        """Add the present faults."""
        self.journal_fault = self._gauge("journal_fault", "1 while the journal cannot be written")
        self.journal_dropped = self._gauge(
            "journal_dropped_records", "Steps not recorded since the start, for want of a disk"
        )
        self.log_dropped = self._gauge(
            "log_dropped_lines",
            "Log lines not written since the start: full disk, no reader",
        )
        self.slurm_fault = self._gauge("slurm_fault", "1 while Slurm does not answer")
        self.stranded_gpus = self._gauge(
            "stranded_gpus", "GPUs that slurmctld counts as used though no job has them"
        )
        self.policy_fault = self._gauge(
            "policy_fault", "1 while no model is in service though one is wanted"
        )
        self.config_ok = self._gauge(
            "config_last_reload_successful",
            "1 if the last reload took effect, 0 if the old configuration was kept",
        )
        self.config_ok.set(1)

    def _counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"roost_{name}_total", meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"roost_{name}", meaning, labels, registry=self.registry)

    def _histogram(
        self, name: str, meaning: str, buckets_s: Sequence[float] = _SLURM_BUCKETS_S
    ) -> Histogram:
        return Histogram(
            f"roost_{name}_seconds", meaning, buckets=buckets_s, registry=self.registry
        )
