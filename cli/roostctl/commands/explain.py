"""`roostctl explain ID`: how one job's placement came about, for a human."""

from collections.abc import Iterator

import click
from rich.console import Console, RenderableType
from rich.text import Text

from roost_engine.plugins.stacks import DEFAULT, OrderKind
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import policy_pb2 as policy_pb
from roostctl.clients.calls import CallFailed
from roostctl.clients.operator import OperatorClient
from roostctl.clients.policies import PolicyClient
from roostctl.commands.eta import in_words
from roostctl.commands.job import allocated
from roostctl.commands.jobs import place, planned, user
from roostctl.commands.status import slot_fault
from roostctl.documents.explain import explain_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.options.completion import job_ids
from roostctl.output.console import Cell, listing, new_console, pairs, print_document, prose, show
from roostctl.output.quantities import (
    ABSENT,
    counted,
    duration,
    index_list,
    node_list,
    or_absent,
    percent,
    safe_text,
)

_HEADS = ("#", "PLACE", "SCORE", "LINKS", "WHY NOT")
_FEATURE_COLUMNS = 5


@click.command(epilog="Example: roostctl explain 4711 --features")
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--features", is_flag=True, help="Also the inputs that the policy saw, by candidate.")
@json_option
@pass_options
def explain(options: Options, job_id: str, features: bool, as_json: bool) -> None:
    """Tell why a job runs where it does.

    Shows what was asked, what was chosen, every candidate with its score and why it lost, the
    nodes that were ruled out, and which policy answered; or what the job waits for.
    """
    with options.connect() as operator:
        found = operator.explain_job(job_id)
        if as_json:
            print_document(explain_document(found))
            return
        expected = _expected_start(operator, found)
    with PolicyClient(options.daemon, options.timeout_s) as policies:
        beside = policies.explain_shadow(found.job.job_id)
    console = new_console()
    show(console, *_sections(console, found, features, expected), *_beside(beside))


def _expected_start(operator: OperatorClient, found: pb.Explanation) -> str:
    """Return when a waiting job is expected to start; "" where there is no fresh forecast."""
    if found.job.state != pb.JOB_STATE_WAITING:
        return ""
    try:
        answer = operator.get_eta(found.job.job_id)
    except CallFailed:  # held, or newer than the forecast, or forecasts are off
        return ""
    if answer.fault or not answer.etas or not answer.etas[0].HasField("start"):
        return ""
    return in_words(answer.etas[0].start, answer.interval_frac)


def _beside(found: policy_pb.ExplainShadowResponse) -> Iterator[RenderableType]:
    """Tell what the policy in shadow would have chosen, where it differs."""
    if not found.is_known or not found.differs:
        return
    name = safe_text(found.policy)
    if not found.HasField("shadow"):
        yield prose(f"In shadow, {name} would not have placed it yet: {safe_text(found.reason)}.")
        return
    yield prose(
        f"In shadow, {name} would have placed it on {safe_text(found.shadow.place)},"
        f" {duration(found.shadow.ago_s)} ago{_expected(found)}."
    )


def _expected(found: policy_pb.ExplainShadowResponse) -> str:
    active, shadow = found.active, found.shadow
    if not (active.HasField("expected_s") and shadow.HasField("expected_s")):
        return ""
    mine, theirs = active.expected_s - active.ago_s, shadow.expected_s - shadow.ago_s
    word = "earlier" if theirs < mine else "later"
    return f", and expects it to end {duration(abs(theirs - mine))} {word}"


def _sections(
    console: Console, found: pb.Explanation, features: bool, expected: str
) -> Iterator[RenderableType]:
    yield prose(_asked(found))
    yield prose(_state(found))
    if found.is_from_journal:
        yield prose(
            f"It ended {duration(found.job.ended_ago_s)} ago; read from the journal.", "dim"
        )
    if found.job.HasField("standing"):
        yield prose(_standing(found.job.standing))
    if found.HasField("turn"):
        yield prose(_turn(found.turn))
    if expected:
        yield prose(f"It is expected to start {expected}.")
    if found.HasField("expected_run"):
        yield prose(_expected_run(found))
    yield from map(prose, _comment_and_estimates(found))
    yield from (Text(line, "red") for line in _failed_slots(found))
    if found.candidates:
        yield ""
        yield pairs(_choice(found))
        yield ""
        yield Text("Candidates, best first", "bold")
        yield listing(console, _HEADS, list(_candidate_rows(found)))
        if features:
            yield ""
            yield Text("What the policy saw", "bold")
            yield _feature_table(console, found)
    if found.exclusions:
        yield ""
        yield Text("Nodes ruled out before scoring", "bold")
        yield pairs(
            [
                (counted(entry.node_count, "node"), safe_text(entry.reason))
                for entry in sorted(found.exclusions, key=lambda e: (-e.node_count, e.reason))
            ]
        )


def _asked(found: pb.Explanation) -> str:
    job = found.job
    name = f" ({safe_text(job.name)})" if job.name else ""
    account = f", account {safe_text(job.account)}," if job.account else ""
    least, most = found.least_node_count, found.most_node_count
    nodes = f" on {least} to {counted(most, 'node')}" if most > least else ""
    return (
        f"Job {safe_text(job.job_id)}{name} of {user(job)}{account} in partition "
        f"{or_absent(job.partition)} asked for {counted(job.gpu_count, 'GPU')}{nodes}."
    )


def _comment_and_estimates(found: pb.Explanation) -> Iterator[str]:
    """Yield what the job's comment says, and what the gate believes of the job."""
    if found.HasField("comment"):
        said = found.comment
        model = [f"it trains {safe_text(said.model)}"] if said.model else []
        saves = said.HasField("checkpoint_s")
        often = [f"it saves its state every {duration(said.checkpoint_s)}"] if saves else []
        if model or often:
            yield f"Its comment says: {' and '.join(model + often)}."
        for problem in said.problems:
            yield f"In its comment, passed over: {safe_text(problem).rstrip('.')}."
    if found.HasField("sensitivity"):
        believed = found.sensitivity
        speeds = (
            f"{percent(believed.rack_frac)} in one rack, {percent(believed.across_frac)} across"
        )
        yield (
            f"Its speed, of that on one node: {speeds}. Known from: {safe_text(believed.source)}; "
            f"confidence {percent(believed.confidence_frac)}. Timer: {safe_text(believed.timer)}."
        )
    if found.HasField("achieved"):
        yield from _achieved(found.achieved)


def _failed_slots(found: pb.Explanation) -> Iterator[str]:
    """Yield the slots whose present policy has failed, be it for this job or another."""
    for entry in found.slots:
        if entry.fault_count:
            policy = f"{safe_text(entry.slot)} policy {safe_text(entry.policy)}"
            yield f"Over all jobs, the {policy} {slot_fault(entry).rstrip('.')}."


def _achieved(found: pb.Achieved) -> Iterator[str]:
    """Yield how fast a running job is believed to go, and how busy its links are."""
    if found.HasField("speed_frac"):
        yield (
            f"It is believed to go at {percent(found.speed_frac)} of its best speed. Known from: "
            f"{safe_text(found.source)}; confidence {percent(found.confidence_frac)}."
        )
    nvlink = [f"NVLink {percent(found.nvlink_frac)}"] if found.HasField("nvlink_frac") else []
    pcie = [f"PCIe {percent(found.pcie_frac)}"] if found.HasField("pcie_frac") else []
    nic = [f"network {percent(found.nic_frac)}"] if found.HasField("nic_frac") else []
    if known := [*nvlink, *pcie, *nic]:
        yield f"Its links have been busy for this share of its run: {', '.join(known)}."


def _state(found: pb.Explanation) -> str:
    job = found.job
    waited, why = duration(job.waited_s), safe_text(job.reason).rstrip(".")
    match job.state:
        case pb.JOB_STATE_WAITING if job.HasField("standing"):
            return f"It has waited {waited}. Why: it {why or 'waits in Slurm'}."
        case pb.JOB_STATE_WAITING:
            return f"It has waited {waited}. Why: {why or 'no reason was given'}. {_until(found)}"
        case pb.JOB_STATE_PLACING:
            tail = f": {why}" if why else ""
            return f"Its GPUs are chosen after {waited}; Slurm has yet to start it{tail}."
        case pb.JOB_STATE_CLEARING:
            return f"It has waited {waited}. Others are being stopped for it: it {why}."
        case pb.JOB_STATE_STOPPING:
            return f"It is being stopped, and will wait again: it {why}."
        case pb.JOB_STATE_RUNNING:
            return f"It runs, after waiting {waited}." + (f" Note: {why}." if why else "")
        case pb.JOB_STATE_LET_GO:
            left = f"It is left to plain Slurm: {why or 'no reason was given'}."
            return f"{left} When it starts: squeue --start -j {safe_text(job.job_id)}"
        case pb.JOB_STATE_ENDED:
            return f"It has ended; it had waited {waited}." + (f" {why}." if why else "")
        case _:
            return f"It has waited {waited}." + (f" {why}." if why else "")


def _until(found: pb.Explanation) -> str:
    """Return until when a waiting job waits, and how its user can end that."""
    job, has_turn = found.job, found.HasField("turn")
    if not job.HasField("wait_left_s"):
        if has_turn:
            return "It is tried again whenever GPUs become free; no deadline is set."
        return "Roost places it once that has changed."
    left = duration(job.wait_left_s)
    if not has_turn:
        return f"It is not considered for another {left}."
    by_hand = f"scontrol update jobid={safe_text(job.job_id)} StartTime=now"
    return f"It will be decided in {left} at the latest; to leave it to Slurm now: {by_hand}"


def _standing(pin: pb.StandingPin) -> str:
    """Return where a job waits in Slurm, since when, and when it is expected to start."""
    at, since = place(pin.shares), duration(pin.age_s)
    if pin.slurm_chooses_gpus:
        nodes = node_list([share.node for share in pin.shares])
        at = f"{nodes}: Slurm chooses the GPUs, likely {at}"
    waits = f"It waits in Slurm since {since}, on {at}."
    if pin.is_preempting:
        return f"{waits} Slurm is to stop the jobs there."
    if not pin.HasField("start_left_s"):
        return f"{waits} A job there has no time limit: the start is not known."
    left = duration(pin.start_left_s)
    return f"{waits} By the time limits of the jobs there it starts in {left} at the latest."


def _turn(turn: pb.Turn) -> str:
    """Return where a job is in the queue, and which jobs may still overtake it."""
    order = safe_text(turn.order)
    place = f"It is number {turn.position} of {counted(turn.of_count, 'waiting job')}"
    by = f"{place} in the order {order}, number {turn.slurm_position} by Slurm's priority."
    if turn.order == OrderKind.PRIORITY:
        by = f"{place}, by Slurm's priority."
    if turn.precedence:
        end = "first" if turn.precedence > 0 else "last"
        by += f" It was put {end} by its priority or nice value in Slurm."
    if turn.precedence >= 0 and turn.HasField("overtaken_for_s"):
        left_s = turn.overtaken_for_s
        later = f"more than {duration(left_s)} from now" if left_s else "from now on"
        by += f" Jobs that become eligible {later} do not overtake it."
    return by


def _expected_run(found: pb.Explanation) -> str:
    """Return how long a job is expected to run, and what that is known from."""
    run, more = found.expected_run, " more" if found.job.state == pb.JOB_STATE_RUNNING else ""
    count = round(run.similar_count)
    known = f"known from {counted(count, 'similar job')}" if count else "no similar job has ended"
    return (
        f"It is expected to run for {duration(run.median_s)}{more} (four times in five between"
        f" {duration(run.low_s)} and {duration(run.high_s)}; {known}) and to need"
        f" {run.gpu_s / 3_600:.1f} GPU-hours."
    )


def _choice(found: pb.Explanation) -> list[tuple[str, Cell]]:
    job = found.job
    return [
        ("Chosen", planned(job)),
        *_chosen_by_slurm(job),
        ("Allocated", allocated(job)),
        ("Links", _links(job)),
        ("Decided", f"{duration(found.decided_ago_s)} ago by {or_absent(found.policy)}"),
        *_stack(found),
        *_fallback(found),
        *_neighbour(found),
    ]


def _chosen_by_slurm(job: pb.Job) -> list[tuple[str, Cell]]:
    if not job.slurm_chooses_gpus:
        return []
    return [("GPUs", "Slurm chooses them on these nodes: no indices were free on all of them")]


def _stack(found: pb.Explanation) -> list[tuple[str, Cell]]:
    """Return the stack in effect, where it is not the default one."""
    if found.stack in ("", DEFAULT.name):
        return []
    return [("Stack", safe_text(found.stack))]


def _links(job: pb.Job) -> str:
    if not job.HasField("link_score"):
        return ABSENT
    if not job.HasField("best_link_score"):
        return f"{job.link_score} points"
    if not job.best_link_score:
        return "one GPU a node: no links to score"
    share = percent(job.link_score / job.best_link_score)
    found = f"{job.link_score} of the {job.best_link_score} points possible ({share})"
    if not job.HasField("planned_link_score"):
        return found
    return f"{found} on such nodes; the chosen GPUs have {job.planned_link_score}"


def _neighbour(found: pb.Explanation) -> list[tuple[str, Cell]]:
    return [("Neighbour", Text(safe_text(found.neighbour)))] if found.neighbour else []


def _fallback(found: pb.Explanation) -> list[tuple[str, Cell]]:
    if not found.fallback_reason:
        return []
    return [
        ("Fallback", Text(f"the model did not answer: {safe_text(found.fallback_reason)}", "red"))
    ]


def _candidate_rows(found: pb.Explanation) -> Iterator[tuple[Cell, ...]]:
    for rank, candidate in enumerate(found.candidates, start=1):
        is_chosen = not candidate.why_not
        style = "green" if is_chosen else ""
        yield (
            str(rank),
            Text(f"{node_list(candidate.nodes)}:{index_list(candidate.gpu_indices)}", style),
            f"{candidate.score:.3f}",
            str(candidate.link_score),
            Text("chosen", style) if is_chosen else safe_text(candidate.why_not),
        )


def _feature_table(console: Console, found: pb.Explanation) -> RenderableType:
    shown = found.candidates[:_FEATURE_COLUMNS]
    names = sorted({name for candidate in shown for name in candidate.features})
    heads = ("INPUT", *(f"#{rank}" for rank in range(1, len(shown) + 1)))
    rows = [
        (
            safe_text(name),
            *(
                f"{candidate.features[name]:.3f}" if name in candidate.features else ABSENT
                for candidate in shown
            ),
        )
        for name in names
    ]
    return listing(console, heads, rows)
