"""Whatever Slurm's commands print, the daemon reads it or names a fault of Slurm; it never ends."""

import asyncio
import contextlib
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.daemon.slurm.test_slurm_cli import FILES, RecordedCommands
from tests.slurm_glue.recorded import RELEASES, read

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.events import QuotasSeen
from roost_engine.testing.builders import EngineHarness
from roost_slurm.text.qos import FIELDS
from roost_slurm.text.squeue import SEPARATOR
from roost_slurm.text.versions import traits_of
from roostd.config.config import Mode
from roostd.slurm.jobs import JobReader
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SiteView, SlurmQueueView
from roostd.slurm.slurm_cli import SlurmCli
from roostd.slurm.sync import diff, diff_nodes

QOS = "qos format=" + ",".join(FIELDS)
# By the kind of command, beside those that a cluster without accounting answers.
SITE_FILES = {
    "squeue.txt": "queue",
    "show_job.txt": "jobs",
    "show_nodes.txt": "nodes",
    "show_topology.txt": "topology",
    "show_config.txt": "config",
    "site_config.txt": "config",
    "site_squeue.txt": "queue",
    "site_show_job.txt": "jobs",
    "site_partitions.txt": "partitions",
    "site_reservations.txt": "reservations",
    "site_licenses.txt": "licenses",
    "site_assoc_mgr.txt": "assoc_mgr flags=assoc,qos",
    "site_qos.txt": QOS,
}
HOSTILE = (
    *("", " ", "9" * 19, "9" * 20, "9" * 400, "9" * 5000, "-1", "0", "1e400", "nan", "inf", "٣"),
    *("4294967296", "18446744073709551616", "n[1-", "n[1-99999999]", "n]", "[", "a,,b", "gpu:"),
    *("gpu:g0:" + "9" * 18, "(IDX:5-1)", "9999-12-31T23:59:59", "99999-01-01T00:00:00"),
    *("0001-01-01T00:00:00", "2026-13-45T99:99:99", "9" * 15 + "-00:00:00", "UNLIMITED", "N/A"),
    *(
        "(null)",
        "\x00",
        "�",
        "9" * 18 + "P",
        "1.5.5M",
        "0-3,6",
        "0-" + "9" * 9,
        "JobId=1 JobName=x",
    ),
)
VALUE = re.compile(rf"[^\s=,:()|{SEPARATOR}]+")


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str, str]:
    """Yield a release, a file of its recorded output, and that output with damage in it."""
    release = draw(st.sampled_from(RELEASES))
    file = draw(st.sampled_from(sorted(SITE_FILES)))
    lines = read(release, file).split("\n")
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, len(lines) - 1))
        values = list(VALUE.finditer(lines[number]))
        if not values:
            continue
        where = draw(st.sampled_from(values))
        text = draw(st.sampled_from(HOSTILE) | st.text(max_size=8))
        end = draw(st.sampled_from((where.end(), where.end(), len(lines[number]))))
        lines[number] = lines[number][: where.start()] + text + lines[number][end:]
    return release, file, "\n".join(lines)


async def read_all(release: str, answers: dict[str, str]) -> None:
    """Read everything as the daemon does at a poll, and give it to an engine."""
    commands = RecordedCommands()
    for kind, text in answers.items():
        commands.answer(kind, text)
    for line in answers["jobs"].split("\n"):
        commands.answer(f"job {line.partition(' ')[0].removeprefix('JobId=')}", line)
    port = SlurmCli(queue_interval_s=0.0)
    port._run = commands.run
    version = await port.version()
    site_settings = await port.settings()
    nodes = await port.nodes()
    snapshot = await port.queue()
    site = SiteView(rules=await port.rules())
    reader = JobReader(
        to_engine_s=lambda epoch_s: epoch_s - 1.7e9,
        mode_of=lambda partition: Mode.ENFORCE,
        traits=traits_of(version),
        accounts_memory=site_settings.accounts_memory,
    )
    names = {node.spec.name for node in nodes}
    seen = view(snapshot, reader, names, SlurmQueueView(), 1.0, site)
    harness = EngineHarness()
    events = (
        *diff_nodes((), nodes, 1.0),
        QuotasSeen(at_s=1.0, free=site.rules.free(snapshot.jobs)),
        *diff(SlurmQueueView(), seen, 1.0),
    )
    for event in events:
        harness.feed(event)


def answers_of(release: str, site: bool) -> dict[str, str]:
    names = {k: f for f, k in SITE_FILES.items() if f.startswith("site_")} if site else FILES
    return {kind: read(release, name) for kind, name in names.items()}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_damaged_output_is_read_or_is_a_fault_of_slurm(case: tuple[str, str, str]) -> None:
    release, file, text = case
    answers = {
        **answers_of(release, site=False),
        "version": read(release, "version.txt"),
        **(answers_of(release, site=True) if file.startswith("site_") else {}),
        SITE_FILES[file]: text,
    }
    # One damaged record of many is left out, and costs no other job its poll.
    is_of_jobs = SITE_FILES[file] in ("queue", "jobs")
    with contextlib.nullcontext() if is_of_jobs else contextlib.suppress(SlurmError):
        asyncio.run(read_all(release, answers))
