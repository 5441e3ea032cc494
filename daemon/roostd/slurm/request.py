"""A job's request as Slurm has it, and the updates that change it. Pure: no clock, no I/O."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId, NodeName, NodeShare, Placement
from roost_slurm.text import commands
from roost_slurm.text.commands import Argv
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.stamp import Stamp, parse_stamp
from roost_slurm.text.tres import (
    SEAT_TOKEN,
    TresError,
    beside_gpus,
    parse_gres,
    prefix_of,
    typed_indices,
    typed_seat,
    without_gres,
)
from roost_slurm.text.versions import Traits
from roostd.slurm.port import NotDue

_PINNED_FIELDS = ("TresPerNode", "TresPerJob")
_REQUEST_FIELDS = (*commands.REQUEST_FIELDS, "CpusPerTres")
_EARLY_S = 2.0  # engine time follows only steps of the wall clock above a second


def check_requeuable(job_id: JobId, detail: JobDetail | None) -> None:
    """Check that a job runs and is under Roost, so that Roost can place it again afterwards.

    Raises:
        SlurmRefused: the job does not run, or has no lease stamp: plain Slurm would start it again.
    """
    if detail is None or detail.state is not SlurmJobState.RUNNING:
        is_what = "gone" if detail is None else detail.state.lower()
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} is {is_what}, not running")
    if parse_stamp(detail.admin_comment) is None:
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} was not placed by Roost")


def pinned_indices(tres: Mapping[str, str]) -> tuple[int, ...]:
    """Return the GPU indices that a job's present request names, ascending.

    Empty where it names none, or cannot be read.
    """
    with contextlib.suppress(TresError):
        for name in _PINNED_FIELDS:
            if indices := typed_indices(parse_gres(tres.get(name, ""))):
                return indices
    return ()


def pinned_seat(tres: Mapping[str, str]) -> int:
    """Return the seat that a job's present request names; 0 where it names none."""
    with contextlib.suppress(TresError):
        return max(typed_seat(parse_gres(tres.get(name, ""))) for name in _PINNED_FIELDS)
    return 0


def check_repinnable(
    job_id: JobId, detail: JobDetail, placement: Placement, traits: Traits
) -> None:
    """Check that the Slurm release can give a job that was pinned before the GPUs of a placement.

    Raises:
        SlurmRefused: the release keeps the indices of the earlier pin, and these are others.
    """
    fixed = () if traits.can_untype else pinned_indices(detail.tres)
    seat = pinned_seat(detail.tres)
    if fixed and (fixed, seat) != (placement.gpu_indices, placement.seat):
        had = ",".join(map(str, fixed)) + (", second seats," if seat else "")
        problem = f"job {job_id} was pinned to GPUs {had}, and this Slurm gives it no others"
        raise SlurmRefused(commands.show_job(job_id), 0, problem)


def spelled_requests(detail: JobDetail) -> list[str]:
    """Return the fields of a job's request for GPUs that slurmctld reads.

    After `scontrol update TresPerNode=gpu:2` 22.05 shows `gpu:2`, which it takes for no request.
    """
    return [
        value
        for name, value in detail.tres.items()
        if name in _REQUEST_FIELDS and name != "CpusPerTres" and prefix_of(value)
    ]


def pin_argv(
    job_id: JobId,
    detail: JobDetail,
    placement: Placement,
    traits: Traits,
    *,
    has_seats: bool = False,
) -> Argv:
    """Build the update that pins a job, from its present details.

    From 23.11 on, srun takes TresPerNode of the job that it has got for the request of its own
    step, beside its user's --gpus: typed and untyped GPUs in one request, which Slurm refuses. So
    the pin of a job without a script is written to TresPerJob there, whatever the job asks.

    Raises:
        SlurmRefused: the job asks for no GPUs, so it is unknown how this Slurm writes a request; or
            the request cannot be read.
    """
    request = [(name, value) for name, value in detail.tres.items() if name in _REQUEST_FIELDS]
    spelled = spelled_requests(detail)
    if not spelled:
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} asks for no GPUs")
    stamp = parse_stamp(detail.admin_comment) or Stamp()
    node_count = len(placement.nodes)
    asked_nodes = (detail.min_node_count, detail.max_node_count)
    was = [
        *request,
        *([("ReqNodeList", detail.required_nodes)] if detail.required_nodes else []),
        *([("NumNodes", _node_range(asked_nodes))] if asked_nodes != (node_count,) * 2 else []),
    ]
    # For --gpus=16 without -N, 24.11 shows the two nodes that it expects, but takes one.
    node_count_changes = node_count > 1 or asked_nodes not in ((1, None), (1, 1))
    admin_comment = str(stamp.pinned_from(tuple(was)))
    if not placement.is_exact:
        return commands.pin_nodes(
            job_id,
            nodes=placement.nodes,
            node_count_changes=node_count_changes,
            admin_comment=admin_comment,
        )
    return commands.pin(
        job_id,
        nodes=placement.nodes,
        gpu_indices=placement.gpu_indices,
        writes_per_job="TresPerNode" in detail.tres or (traits.can_untype and not detail.is_batch),
        tokens=_tokens_on_seat(_tokens(job_id, spelled), placement.seat, has_seats=has_seats),
        seat=placement.seat,
        has_cpus_per_gpu="CpusPerTres" in detail.tres,
        kept_per_task=without_gres(detail.tres.get("TresPerTask", "")),
        node_count_changes=node_count_changes,
        kept_task_count=detail.task_count if detail.has_tasks_per_gpu else None,
        admin_comment=admin_comment,
        prefix=prefix_of(spelled[0]),
    )


def _tokens_on_seat(tokens: frozenset[str], seat: int, *, has_seats: bool) -> frozenset[str]:
    """Return the tokens of a job: that of its GPU is with the job on the first seat alone.

    So there are as many as GPUs that a plain request may have. A job that opted in comes without.
    """
    if seat:
        return tokens - {SEAT_TOKEN}
    return tokens | {SEAT_TOKEN} if has_seats else tokens


def _tokens(job_id: JobId, fields: Iterable[str]) -> frozenset[str]:
    """Return what a job under Roost asks for beside GPUs; see JobReader.is_model."""
    try:
        return beside_gpus(gres for field in fields for gres in parse_gres(field))
    except TresError as error:
        raise SlurmRefused(commands.show_job(job_id), 0, str(error)) from error


def pin_calls(
    job_id: JobId,
    detail: JobDetail,
    placement: Placement,
    traits: Traits,
    *,
    lease_s: int,
    is_eligible: bool,
    has_seats: bool = False,
) -> tuple[Argv, ...]:
    """Build the updates that pin a job.

    Args:
        job_id: the job.
        detail: its present details.
        placement: where it is to run.
        traits: of this Slurm release.
        lease_s: length of the lease between two updates.
        is_eligible: whether it waits in Slurm by a standing pin already. Its begin time then stays
            as it is, or a job on several nodes is leased between two updates.
        has_seats: whether Slurm has second seats for the GPUs.

    Raises:
        SlurmRefused: see pin_argv.
    """
    argv = pin_argv(job_id, detail, placement, traits, has_seats=has_seats)
    if not is_eligible:
        return (argv,)
    if len(placement.nodes) > 1 or detail.min_node_count > 1:
        return commands.in_two_steps(argv, lease_s)
    return (commands.without_start(argv),)


def unpin_calls(job_id: JobId, detail: JobDetail, traits: Traits, lease_s: int) -> tuple[Argv, ...]:
    """Build the updates that take back a job's pin, as far as the Slurm release allows it."""
    argv = unpin_argv(job_id, detail, traits, lease_s)
    if detail.min_node_count > 1 and traits.can_untype:
        return commands.in_two_steps(argv, lease_s)
    return (argv,)


def unpin_argv(job_id: JobId, detail: JobDetail, traits: Traits, lease_s: int) -> Argv:
    """Build the update that takes back a job's pin, as far as the Slurm release allows it.

    A job that never was pinned is leased, and keeps the node list that its user gave it.
    """
    was = (parse_stamp(detail.admin_comment) or Stamp()).was
    request = [(name, value) for name, value in was if name in _REQUEST_FIELDS]
    return commands.unpin(
        job_id,
        request=request if traits.can_untype else [],
        required_nodes=dict(was).get("ReqNodeList", "") if was else detail.required_nodes,
        lease_s=lease_s,
    )


def shares_of(detail: JobDetail) -> tuple[NodeShare, ...]:
    """Return a job's allocation in the engine's terms."""
    return tuple(
        NodeShare(
            NodeName(node.node), node.gpu_indices, node.cpu_count, node.memory_bytes, node.seat
        )
        for node in detail.allocated
    )


def _node_range(counts: tuple[int, int | None]) -> str:
    return str(counts[0]) if counts[1] is None else f"{counts[0]}-{counts[1]}"


def difference(placement: Placement, shares: Iterable[NodeShare]) -> str | None:
    """Return how a job's allocation differs from its placement, as text; None when it does not."""
    held = tuple(shares)
    if placement.is_met_by(held):
        return None
    got = {share.node: share.gpu_indices for share in held}
    return f"chosen {_spell(dict(placement.by_node()))}, allocated {_spell(got)}"


def _spell(gpus: Mapping[NodeName, tuple[int, ...]]) -> str:
    return " ".join(f"{n}:{','.join(map(str, gpus[n]))}" for n in sorted(gpus)) or "nothing"


def without_gpus(placement: Placement) -> Placement:
    """Return an exact placement as one of which Slurm is asked for the nodes alone."""
    by_node = (placement.gpu_indices,) * len(placement.nodes)
    return replace(placement, gpu_indices=(), indices_by_node=by_node)


def is_pinned(detail: JobDetail, placement: Placement) -> bool:
    """Return whether a job holds, or asks for, exactly a placement."""
    if detail.allocated:
        return difference(placement, shares_of(detail)) is None
    try:
        nodes = expand(detail.required_nodes)
        asked = [
            typed_indices(parse_gres(detail.tres[name]))
            for name in _PINNED_FIELDS
            if name in detail.tres
        ]
    except (HostlistError, TresError):
        return False
    if not placement.is_exact:
        return sorted(nodes) == sorted(placement.nodes)
    if pinned_seat(detail.tres) != placement.seat:
        return False
    return asked == [placement.gpu_indices] and sorted(nodes) == sorted(placement.nodes)


def asked(detail: JobDetail) -> object:
    """Return a job's request, to be compared with another."""
    return (
        detail.tres,
        detail.min_node_count,
        detail.max_node_count,
        detail.required_nodes,
        detail.excluded_nodes,
        detail.memory_per_node_bytes,
        detail.memory_per_cpu_bytes,
        detail.is_exclusive,
    )


def check_due(job_id: JobId, detail: JobDetail, now_epoch_s: float) -> None:
    """Check that a job may begin, by its user's begin time: a pin lets it start at once.

    Raises:
        NotDue: it may not; the wall clock was set back since the job was decided.
    """
    stamp = parse_stamp(detail.admin_comment)
    if stamp is None or stamp.begin_epoch_s is None:
        return
    left_s = stamp.begin_epoch_s - now_epoch_s
    if left_s > _EARLY_S:
        raise NotDue(job_id, left_s)
