"""What Prometheus can ask for. The list for people is in docs/operations.md; a test compares."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from roostd.core.errors import ConfigError


class Metrics:
    """Every metric of the daemon. No label holds a user or a job: the series stay few.

    Args:
        registry: where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.events = Counter(
            "roost_events_total", "Events the engine was given", ["kind"], registry=registry
        )
        self.decisions = Counter(
            "roost_decisions_total",
            "Placements decided, by policy kind",
            ["policy"],
            registry=registry,
        )
        self.fallbacks = Counter(
            "roost_policy_fallbacks_total",
            "Decisions that the heuristic made because the model could not",
            registry=registry,
        )
        self.decision_s = Histogram(
            "roost_decision_seconds",
            "Time of an engine step that placed a job",
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
            registry=registry,
        )
        self.pins = Counter(
            "roost_pins_total",
            "Placements carried out in Slurm, by outcome: pinned, refused, gone",
            ["outcome"],
            registry=registry,
        )
        self.pin_s = Histogram(
            "roost_pin_seconds",
            "Time that Slurm took to accept a pin",
            buckets=(0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
            registry=registry,
        )
        self.preemptions = Counter(
            "roost_preemptions_total",
            "Running jobs that Slurm was asked to stop, by outcome: stopped, refused",
            ["outcome"],
            registry=registry,
        )
        self.mismatches = Counter(
            "roost_allocation_mismatches_total",
            "Jobs that Slurm started on other GPUs than decided",
            registry=registry,
        )
        self.let_go = Counter(
            "roost_jobs_let_go_total", "Jobs handed back to plain Slurm", registry=registry
        )
        self.lease_renewals = Counter(
            "roost_lease_renewals_total", "Leases renewed", registry=registry
        )
        self.slurm_failures = Counter(
            "roost_slurm_failures_total",
            "Slurm commands that failed or hung, by what was asked",
            ["operation"],
            registry=registry,
        )
        self.slurm_poll_s = Histogram(
            "roost_slurm_poll_seconds",
            "Time of one look at Slurm's queue and nodes",
            buckets=(0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
            registry=registry,
        )
        self.samples = Counter(
            "roost_telemetry_samples_total", "Samples accepted from probes", registry=registry
        )
        self.samples_rejected = Counter(
            "roost_telemetry_rejected_total",
            "Messages from probes that were not used, by reason",
            ["reason"],
            registry=registry,
        )
        self.resyncs = Counter(
            "roost_telemetry_resyncs_total", "Hellos asked for again", registry=registry
        )
        self.streams = Gauge("roost_probe_streams", "Probe streams open", registry=registry)
        self.jobs = Gauge("roost_jobs", "Jobs by state", ["state"], registry=registry)
        self.nodes = Gauge("roost_nodes", "Nodes that Slurm names", registry=registry)
        self.gpus = Gauge("roost_gpus", "GPUs of usable nodes", ["state"], registry=registry)
        self.queue_length = Gauge(
            "roost_event_queue_length", "Events not given to the engine yet", registry=registry
        )
        self.journal_fault = Gauge(
            "roost_journal_fault", "1 while the journal cannot be written", registry=registry
        )
        self.journal_dropped = Gauge(
            "roost_journal_dropped_records",
            "Steps not recorded since the start, for want of a disk",
            registry=registry,
        )
        self.slurm_fault = Gauge(
            "roost_slurm_fault", "1 while Slurm does not answer", registry=registry
        )
        self.policy_fault = Gauge(
            "roost_policy_fault",
            "1 while no model is in service though one is wanted",
            registry=registry,
        )
        self.config_ok = Gauge(
            "roost_config_last_reload_successful",
            "1 if the last reload took effect, 0 if the old configuration was kept",
            registry=registry,
        )
        self.config_ok.set(1)


def serve_metrics(registry: CollectorRegistry, address: str) -> None:
    """Answer Prometheus on HOST:PORT, from a thread of its own.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    try:
        start_http_server(int(port), host.strip("[]"), registry=registry)
    except OSError as error:
        raise ConfigError([f"listen.metrics: {address}: {error.strerror}"]) from error
