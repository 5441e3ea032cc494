"""What scontrol prints of jobs, nodes and switches, read into plain data.

In `show job` everything is key=value with blanks between, and a job's name, comment and command
may hold blanks, line breaks and text that looks like other keys. So a key that Roost reads must
occur exactly once in a record, and a job number in one record only; else the record counts as
forged.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from roost_slurm.text.gres_used import UNREGISTERED, has_registered, is_registering, used_gpus
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.limits import LONGEST_COMMENT, MOST_HOSTS, uint32, whole_number
from roost_slurm.text.squeue import HOLDING, SlurmJobState
from roost_slurm.text.tres import (
    ABSENT,
    Gres,
    TresError,
    allocated_gpus,
    allocated_seat,
    gpu_count,
    is_seat,
    parse_gres,
    parse_indices,
    parse_memory_bytes,
    shared_gpus,
)

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z/:]*)=(\S*)")
_NODES = re.compile(r"(?:^|\s)Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)")
_RECORD = re.compile(r"^JobId=(\d{1,10}) ", re.MULTILINE | re.ASCII)
_NEXT_KEY = re.compile(r"\s[A-Z][A-Za-z]*=|\n")
_AFTER_NAME = re.compile(r"\s(?:UserId|SLUID|HetJobIdSet)=")
_AFTER_QOS = re.compile(r"\sJobState=|\n")
_COMMENT = re.compile(r"\sComment=|\n")
_REQUIRED = ("JobState", "NumNodes", "ReqNodeList", "ExcNodeList")
_TRES = ("CpusPerTres", "MemPerTres", "TresPerTask", "TresPerSocket", "TresPerJob", "TresPerNode")
_TOLD = ("Reason", "Priority", "AdminComment", "ArrayTaskThrottle", "Exclusive")
_UNIQUE = (*_REQUIRED, *_TRES, *_TOLD, "FedViableSiblings")
_MIB = 1 << 20
_LONGEST_NAME = 200
# A node that carries one of these flags gets no new jobs. A node that is powered down does: Slurm
# wakes it for the first job that is allocated there. It does not wake a node that is powering down.
# RESERVED is not among them: some jobs may run there, and the reservations themselves say which.
_CLOSED = frozenset(
    {
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "BLOCKED"),
        *("INVAL", "INVALID_REG", "MAINT", "MAINTENANCE"),
        *("PERFCTRS", "POWERING_DOWN", "POWER_DOWN"),
        *("REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "UNKNOWN"),
    }
)
_SILENT = frozenset({"NO_RESPOND", "NOT_RESPONDING"})
_WAKING = frozenset({"POWERED_DOWN", "POWERING_UP", "POWER_UP"})


@dataclass(frozen=True, slots=True)
class AllocatedNode:
    """What a job holds on one node."""

    node: str
    gpu_indices: tuple[int, ...]  # ascending
    cpu_count: int
    memory_bytes: int
    seat: int = 0  # of each of the GPUs
    shared_indices: tuple[int, ...] = ()  # of GPUs of which the job has shards or MPS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """What squeue does not print, or not on every release.

    Attributes:
        min_node_count, max_node_count: of -N; max is None where the user left it open.
        excluded_nodes, required_nodes: host lists, "" when none.
        tres: request fields by Slurm's name, only those that are set, raw.
        memory_per_node_bytes, memory_per_cpu_bytes: of --mem and --mem-per-cpu; None: not given.
        sockets_per_node: of --sockets-per-node.
        task_limit: the %N of --array; None: no limit.
        task_count: of -n, or what follows from the rest.
        has_tasks_per_gpu: of --ntasks-per-gpu.
        is_batch: of sbatch; otherwise of srun or salloc.
        is_exclusive: of --exclusive; None where the release does not tell it here.
        exclusive_to: "USER", "TOPO" and so on of --exclusive=, as 26.05 shows it.
        is_federated: whether it may start on another cluster of a federation instead.
        admin_comment: its words, up to where something else begins.
        name: as its user gave it; what is no text is "?", and the end may be missing.
        comment: of --comment, up to where something else begins; of LONGEST_COMMENT characters the
            whole words. None: the user's texts imitate one, so that there is no telling.
        qos: "" where the user's texts imitate one.
        allocated: empty while the job holds nothing.
    """

    number: int
    state: SlurmJobState
    reason: str
    is_held: bool
    min_node_count: int
    max_node_count: int | None
    excluded_nodes: str
    required_nodes: str
    tres: dict[str, str] = field(default_factory=dict)
    memory_per_node_bytes: int | None = None
    memory_per_cpu_bytes: int | None = None
    sockets_per_node: int | None = None
    task_limit: int | None = None
    task_count: int = 1
    has_tasks_per_gpu: bool = False
    is_batch: bool = True
    is_exclusive: bool | None = None
    exclusive_to: str = ""
    is_federated: bool = False
    admin_comment: str = ""
    name: str = ""
    comment: str | None = ""
    qos: str = ""
    allocated: tuple[AllocatedNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """One node as slurmctld knows it.

    Attributes:
        state: in full, lower case: "idle", "mixed+drain"; "mixed+unregistered": see gres_used.
        is_open: may receive a job now, as far as its state goes.
        is_asleep: powered down, or waking: Slurm boots it for the first job there.
        is_future: not there yet: a name in slurm.conf.
        gpu_count: all of its gres "gpu", seats (types s0, s1, ...) left out.
        has_seats: whether each of them has a second seat.
        is_typed: whether GPU i has the type gi, so that a job can be pinned to it.
        used_gpus: GPU indices that slurmctld counts as used; see gres_used.
        is_registering: see gres_used.
    """

    name: str
    state: str
    reason: str
    is_open: bool
    is_asleep: bool
    is_future: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    cpu_count: int
    cpu_allocated_count: int
    memory_bytes: int
    memory_allocated_bytes: int
    gpu_count: int
    socket_count: int = 1
    has_seats: bool = False
    is_typed: bool = True
    used_gpus: tuple[int, ...] = ()
    is_registering: bool = False


def parse_jobs(text: str, wanted: Collection[int] | None = None) -> dict[int, JobDetail]:
    """Read `scontrol -d -o show job`, of one job or of all.

    Args:
        text: what scontrol printed.
        wanted: read the records with these numbers only: a few of thousands; None: all.

    Returns:
        Details by job number. Forged and truncated records are left out, and so is a number that
        occurs twice: any user's text may contain it, so only an answer about that job alone counts.
    """
    found: dict[int, JobDetail | None] = {}
    starts = [match.start() for match in _RECORD.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        record = text[start:end]
        match = _RECORD.match(record)
        assert match is not None
        number = int(match[1])
        if wanted is not None and number not in wanted:
            continue
        found[number] = None if number in found else _parse_job(number, record)
    return {number: detail for number, detail in found.items() if detail is not None}


def _parse_job(number: int, record: str) -> JobDetail | None:
    pairs = _PAIR.findall(record)
    counts = Counter(key for key, _ in pairs)
    if any(counts[key] != 1 for key in _REQUIRED) or any(counts[key] > 1 for key in _UNIQUE):
        return None
    row = dict(pairs)
    state, sockets = _state(row["JobState"]), row.get("Socks/Node", "*")
    least, _, most = row["NumNodes"].partition("-")
    try:
        return JobDetail(
            number=number,
            state=state,
            reason=_text(row.get("Reason", "")),
            is_held=row.get("Priority") == "0",
            min_node_count=uint32(least),
            max_node_count=uint32(most) if most else None,
            excluded_nodes=_text(row["ExcNodeList"]),
            required_nodes=_text(row["ReqNodeList"]),
            tres={key: row[key] for key in _TRES if row.get(key, "") not in ABSENT},
            memory_per_node_bytes=_memory(row.get("MinMemoryNode", "0")),
            memory_per_cpu_bytes=_memory(row.get("MinMemoryCPU", "0")),
            sockets_per_node=uint32(sockets) if sockets.isdecimal() else None,
            task_limit=uint32(row.get("ArrayTaskThrottle", "0")) or None,
            task_count=uint32(row.get("NumTasks", "1")),
            has_tasks_per_gpu=row.get("NtasksPerTRES", "0") != "0",
            is_batch=row.get("BatchFlag", "1") != "0",
            is_exclusive=row["Exclusive"] != "NO" if "Exclusive" in row else None,
            exclusive_to=row.get("Exclusive", ""),
            is_federated="," in row.get("FedViableSiblings", ""),
            admin_comment=_words_of("AdminComment", record),
            name=_name(record),
            comment=_cut(_words_of("Comment", record)) if counts["Comment"] <= 1 else None,
            qos=_qos(record) if counts["QOS"] == 1 else "",
            allocated=_allocated(record) if state in HOLDING else (),
        )
    except (HostlistError, TresError, ValueError):
        return None


def _memory(text: str) -> int | None:
    return parse_memory_bytes(text) or None  # 0: not given


def _mib(text: str) -> int:
    return parse_memory_bytes(f"{whole_number(text)}M")


def _words_of(key: str, record: str) -> str:
    # Several words; ends at the next key that show job prints after it, all releases' spellings.
    # Searched in two steps: one pattern for both ends tries every end of every run of blanks, which
    # takes minutes for the 100,000 blanks that a user's comment may have.
    start = re.search(rf"\s{key}=", record)
    return _text(_until(_NEXT_KEY, record, start.end())) if start else ""


def _cut(comment: str) -> str:
    # A word that is cut might say something else: checkpoint=6000 might become checkpoint=600.
    if len(comment) <= LONGEST_COMMENT:
        return comment
    return comment[: LONGEST_COMMENT + 1].rpartition(" ")[0]


def _name(record: str) -> str:
    # A name that imitates a key behind it is cut there, which is its user's own loss. SLUID: 26.05.
    start = re.search(r"\sJobName=", record)
    end = start and _AFTER_NAME.search(record, start.end())
    name = record[start.end() : end.start()].rstrip()[:_LONGEST_NAME] if start and end else ""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _qos(record: str) -> str:
    # The name of a QoS may hold blanks; JobState stands behind it on every release.
    start = re.search(r"\sQOS=", record)
    return _text(_until(_AFTER_QOS, record, start.end())) if start else ""


def _allocated(record: str) -> tuple[AllocatedNode, ...]:
    start = record.find(" JOB_GRES=")
    if start < 0 or record.count(" JOB_GRES=") > 1 or record.count(" MinCPUsNode=") > 1:
        return ()
    section = record[start : record.find(" MinCPUsNode=")]
    found: list[AllocatedNode] = []
    for names, cpus, memory, gres in _NODES.findall(section):
        nodes, cpu_count = expand(names), len(parse_indices(cpus))
        gpus, seat, shared = allocated_gpus(gres), allocated_seat(gres), shared_gpus(gres)
        held = (gpus, cpu_count, _mib(memory), seat, shared)
        if len(found) + len(nodes) > MOST_HOSTS:
            return ()  # no job has that many: a user's text that imitates allocations
        found += (AllocatedNode(node, *held) for node in nodes)
    return tuple(found)


def parse_nodes(text: str) -> tuple[ShownNode, ...]:
    """Read `scontrol -d -o show nodes`. Lines that are no nodes are left out."""
    nodes = (_parse_node(line) for line in text.split("\n") if line.startswith("NodeName="))
    return tuple(node for node in nodes if node is not None)


def _parse_node(line: str) -> ShownNode | None:
    # Reason= and Comment= come last and are free text: a key's first occurrence is Slurm's own.
    row: dict[str, str] = dict(reversed(_PAIR.findall(line)))
    try:
        every = parse_gres(_without_sockets(row.get("Gres", "")))
        gres = [entry for entry in every if not is_seat(entry.kind)]
        state, flags = row["State"], _flags(row["State"])
        is_asleep, is_open = not _WAKING.isdisjoint(flags), _is_open(state)
        if is_open and not is_asleep and not has_registered(row):
            state, is_open = f"{state}+{UNREGISTERED}", False
        return ShownNode(
            name=row["NodeName"],
            state=state.lower(),
            reason=_reason(line),
            is_open=is_open,
            is_asleep=is_asleep,
            is_future="FUTURE" in flags,
            partitions=_words(row.get("Partitions", "")),
            features=_words(row.get("ActiveFeatures", row.get("AvailableFeatures", ""))),
            cpu_count=uint32(row.get("CPUEfctv", row["CPUTot"])),
            cpu_allocated_count=uint32(row["CPUAlloc"]),
            memory_bytes=_mib(row["RealMemory"]),
            memory_allocated_bytes=_mib(row["AllocMem"]),
            gpu_count=gpu_count(gres),
            has_seats=0 < gpu_count(every) == 2 * gpu_count(gres),
            socket_count=max(uint32(row.get("Sockets", "1")), 1),
            is_typed=_is_typed(gres),
            used_gpus=used_gpus(row),
            is_registering=is_registering(row),
        )
    except (KeyError, TresError, ValueError):
        return None


def _is_typed(gres: Sequence[Gres]) -> bool:
    gpus = [(entry.kind, entry.count) for entry in gres if entry.name == "gpu"]
    return sorted(gpus, key=str) == sorted(((f"g{i}", 1) for i in range(len(gpus))), key=str)


def _is_open(state: str) -> bool:
    flags = _flags(state)
    is_silent = "*" in state or not _SILENT.isdisjoint(flags)
    return _CLOSED.isdisjoint(flags) and (not is_silent or not _WAKING.isdisjoint(flags))


def _flags(state: str) -> set[str]:
    return {flag.rstrip("*") for flag in state.upper().split("+")}


def parse_racks(text: str) -> dict[str, str]:
    """Read `scontrol show topology`: node name to its leaf switch, or block; empty without one."""
    racks: dict[str, str] = {}
    for line in text.split("\n"):
        row: dict[str, str] = dict(_PAIR.findall(line))
        name = row.get("SwitchName") or row.get("BlockName")
        is_leaf = (row.get("Level", "0") == "0" and "BlockSize" not in row) or "BlockName" in row
        if name and is_leaf and row.get("Nodes"):
            racks.update(dict.fromkeys(_expanded(row["Nodes"]), name))
    return racks


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What Roost must know of slurm.conf."""

    cluster_name: str
    accounts_memory: bool  # memory is allocated, and a job waits when none is left


def config_row(text: str) -> dict[str, str]:
    """Read `scontrol show config` into values by name: "(null)" where a setting has none."""
    pairs = (line.partition("=") for line in text.split("\n"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def parse_config(text: str) -> Settings:
    """Read `scontrol show config`; what is missing counts as empty."""
    row = config_row(text)
    return Settings(
        cluster_name=row.get("ClusterName", ""),
        accounts_memory="MEMORY" in row.get("SelectTypeParameters", "").upper(),
    )


def _expanded(nodes: str) -> Iterable[str]:
    try:
        return expand(nodes)
    except HostlistError:
        return ()


def _without_sockets(gres: str) -> str:
    return re.sub(r"\(S:[^)]*\)", "", gres)  # gpu:g0:1(S:0), where gres.conf names cores


def _reason(line: str) -> str:
    start = re.search(r"\sReason=", line)
    return _text(_until(_COMMENT, line, start.end())) if start else ""


def _until(end: re.Pattern[str], text: str, start: int) -> str:
    """Return what stands between a position and the next match, without blanks around it."""
    match = end.search(text, start)
    return text[start : match.start() if match else None].strip()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in _text(text).split(",") if word)


def _state(text: str) -> SlurmJobState:
    return SlurmJobState(text) if text in SlurmJobState.__members__ else SlurmJobState.OTHER


def _text(text: str) -> str:
    return "" if text in ABSENT else text
