"""What is fuzzed: each entry reads bytes that a user, a peer, a disk or Slurm may have written.

A target returns for every input, or raises one of the errors that its callers expect.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tests.slurm_glue.conftest import Runtime
from tests.slurm_glue.recorded import RELEASES, read
from tests.slurm_glue.test_job_submit_lua import Slurmctld

from roost_engine.domain.actions import Place, Wait
from roost_engine.domain.errors import ConfigError, RoostError
from roost_engine.domain.events import Event, JobQueued
from roost_engine.testing import builders
from roost_formats.audit import chain
from roost_formats.journal import codec
from roost_formats.yaml.tree import read_tree
from roost_proto.v1 import telemetry_pb2
from roost_slurm.hooks import spool
from roost_slurm.hooks.heartbeat import FRESH_S
from roost_slurm.site import submit_script
from roost_slurm.text import (
    assoc_mgr,
    hostlist,
    licenses,
    partitions,
    qos,
    reservations,
    scontrol,
    squeue,
    stamp,
    times,
    tres,
)
from roost_slurm.text.tres import TresError
from roostd.config.loaded_config import load_config
from roostd.slurm.comment import parse_comment
from roostd.telemetry.probe_messages import check_sample, read_hello, read_load

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).parent / "seeds"


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to fuzz.

    Attributes:
        name: of the target; seeds that were kept are in `seeds/NAME/`.
        read: is given the bytes.
        seeds: good inputs, from which others are made.
        expected: errors that callers handle.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    expected: tuple[type[Exception], ...] = ()

    def kept(self) -> list[bytes]:
        """Return the inputs that once broke it; each is tried again first."""
        return [path.read_bytes() for path in sorted((SEEDS / self.name).glob("*.bin"))]


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    # As roostd reads Slurm's output: what is no UTF-8 is replaced.
    return lambda data: parse(data.decode("utf-8", "replace"))


def _recorded(name: str) -> tuple[bytes, ...]:
    return tuple(read(release, name).encode() for release in RELEASES)


def _words(*texts: str) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


def _parsers() -> Iterator[Target]:
    for name, parse, file in (
        ("squeue", squeue.parse_queue, "squeue.txt"),
        ("squeue-site", squeue.parse_queue, "site_squeue.txt"),
        ("jobs", scontrol.parse_jobs, "show_job.txt"),
        ("nodes", scontrol.parse_nodes, "show_nodes.txt"),
        ("racks", scontrol.parse_racks, "show_topology.txt"),
        ("slurm-conf", scontrol.parse_config, "show_config.txt"),
        ("partitions", partitions.parse_partitions, "site_partitions.txt"),
        ("reservations", reservations.parse_reservations, "site_reservations.txt"),
        ("licenses", licenses.parse_licenses, "site_licenses.txt"),
        ("assoc-mgr", assoc_mgr.parse_assoc_mgr, "site_assoc_mgr.txt"),
        ("qos", qos.parse_qos, "site_qos.txt"),
    ):
        yield Target(name, _text(parse), _recorded(file))
    yield Target(
        "hostlist",
        _text(hostlist.expand),
        _words("n[1-4,7],gpu-[001-010]", "a,b", "n[1-2]x[3-4]"),
        (hostlist.HostlistError,),
    )
    for name, read_one, texts in _SHORT_TEXTS:
        # Each reads one value of a record; the reader of the record handles ValueError.
        yield Target(name, _text(read_one), _words(*texts), (ValueError, TresError))
    yield Target(
        "spool",
        _text(spool.parse_line),
        _words("submit 1000 main", "start 17", "end 17_3"),
        (spool.SpoolError,),
    )


_SHORT_TEXTS: tuple[tuple[str, Callable[[str], object], tuple[str, ...]], ...] = (
    ("tasks", squeue.parse_tasks, ("1-3,7%2", "0-9:3", "5")),
    ("time", times.parse_time, ("2026-01-02T03:04:05", "N/A")),
    ("limit", times.parse_limit, ("1-02:03:04", "UNLIMITED", "30:00")),
    ("gres", tres.parse_gres, ("gres/gpu:g2:1,gres/gpu:g3:1", "gres:gpu:a100:4,gres:shard:2")),
    ("tres", tres.parse_tres, ("cpu=4,mem=8G,gres/gpu:a100=2", "billing=5")),
    ("indices", tres.parse_indices, ("0-3,6", "gpu:g2:1(IDX:2)")),
    ("memory", tres.parse_memory_bytes, ("8G", "512M", "1.5T")),
    ("stamp", stamp.parse_stamp, ("roost:begin=1700000000,lease=10", "x roost:v1 y")),
    ("comment", parse_comment, ("roost:model=resnet50,checkpoint=600", "roost:model")),
    ("license-request", licenses.parse_request, ("matlab:2,ansys@site:1",)),
)


def _config(data: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(data)
        file.flush()
        return load_config(Path(file.name), {})


def _files() -> Iterator[Target]:
    example = (ROOT / "deploy" / "roostd.yaml").read_bytes()
    yield Target("yaml", _text(read_tree), (example, b"a: [1, {b: c}]\nd: &x e\n"))
    yield Target("config", _config, (example, b"mode: enforce\n"), (ConfigError,))
    line, _ = chain.chained(chain.START, {"by": "ann"})
    yield Target("audit", chain.check, (f"{line}\n".encode(),))
    queued = codec.encode(JobQueued(at_s=1.0, job=builders.job("1", gpus=2)))
    actions = codec.encode((Wait(job_id=builders.job("1").job_id, reason="no GPUs", until_s=None),))
    for name, kind in (("codec-event", Event), ("codec-actions", tuple[Wait | Place, ...])):
        yield Target(name, _decode(kind), (queued, actions), (RoostError,))


def _decode(kind: Any) -> Callable[[bytes], object]:
    # The checksum is made again, as a program that damages records on purpose would.
    def read_record(data: bytes) -> object:
        length = int.from_bytes(data[:4], "little") & 0x7FFFFFFF
        head, rest = data[8 : 8 + length], data[8 + length :]
        return codec.decode(codec.seal(head, [rest]), kind)

    return read_record


def _messages() -> Iterator[Target]:
    from tests.daemon.rpc.probes import floats, hello, sample

    greeting = hello("n1", minors=[2, 3, 0, 1], lanes={(0, 1): 4, (2, 3): 4})
    known = read_hello(greeting)
    load = sample(sm_frac=floats(0.1, 0.2, 0.3, None))

    def read_sample(data: bytes) -> object:
        message = telemetry_pb2.Sample.FromString(data)
        check_sample(message, known)
        return read_load(message, range(4))

    yield Target(
        "hello",
        lambda data: read_hello(telemetry_pb2.Hello.FromString(data)),
        (greeting.SerializeToString(),),
        (DecodeError, RoostError),
    )
    yield Target("sample", read_sample, (load.SerializeToString(),), (DecodeError, RoostError))


_LUA_FIELDS: tuple[str, ...] = (
    *("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "features"),
    *("partition", "comment", "admin_comment", "name", "licenses", "account", "gres"),
)


@contextmanager
def lua_target() -> Iterator[Target]:
    """job_submit.lua on jobs of any texts and numbers: it must accept each one."""
    with tempfile.TemporaryDirectory() as folder:
        runtime, beaten_s = Runtime(Path(folder)), float("-inf")
        script = submit_script.render(runtime.heartbeat_file, runtime.spool_file, ("a100",))
        slurmctld = Slurmctld(script)

        def submit(data: bytes) -> None:
            nonlocal beaten_s
            if time.monotonic() > beaten_s + FRESH_S / 3:
                runtime.beat(lease_s=10, models=("a100",))
                beaten_s = time.monotonic()
            job: dict[str, Any] = {}
            for number, part in enumerate(data.split(b"\n")[: 3 * len(_LUA_FIELDS)]):
                job[_LUA_FIELDS[number % len(_LUA_FIELDS)]] = part.decode("latin-1")
            numbers = [int.from_bytes(data[at : at + 4], "little") for at in range(0, 16, 4)]
            job |= dict(zip(("min_nodes", "max_nodes", "begin_time", "uid"), numbers, strict=True))
            slurmctld.submit(job, uid=numbers[3])
            slurmctld.modify({"comment": job.get("comment", "")}, job)
            assert not slurmctld.errors, slurmctld.errors

        seeds = _words("gres/gpu:2\n\n\n\nbig\nmain", "gres:gpu:a100:4,gres/shard:1\ngpu:a100")
        yield Target("lua", submit, seeds)


def targets() -> list[Target]:
    """Return every target that needs nothing to be set up."""
    return [*_parsers(), *_files(), *_messages()]
