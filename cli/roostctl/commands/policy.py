"""`roostctl policy`: which policies decide, and how one takes over from another."""

import re
import time
from collections.abc import Iterator

import click
from rich.console import Console, RenderableType
from rich.text import Text

from roost_proto.v1 import policy_pb2 as pb
from roostctl.clients.policies import PolicyAdminClient, PolicyClient
from roostctl.documents.policies import message_document
from roostctl.options.admin import admin_address, admin_option, caller_name
from roostctl.options.common import Options, json_option, pass_options
from roostctl.output.console import Cell, listing, new_console, pairs, print_document, prose, show
from roostctl.output.quantities import ABSENT, duration, percent, safe_text

_HEADS = ("SLOT", "POLICY", "DECIDES", "MODEL", "PROBLEM")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_SCHEMA = "roost.policy/1"
_LIST_SCHEMA = "roost.policies/1"
_EVALUATION_SCHEMA = "roost.evaluation/1"


class Span(click.ParamType):  # type: ignore[type-arg]
    """A time with its unit: 7d, 36h."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the seconds; see click.ParamType.convert."""
        match = _SPAN.fullmatch(str(value))
        span_s = 0.0 if match is None else float(match[1]) * _UNITS_S[match[2]]
        if not span_s:
            self.fail(f"{value} is no time; want 7d, 36h, 90m or 600s", param, ctx)
        return span_s


class Share(click.ParamType):  # type: ignore[type-arg]
    """A share of users: 10%."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the fraction; see click.ParamType.convert."""
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            frac = float(text.removesuffix("%")) / 100.0 if text.endswith("%") else 0.0
        except ValueError:
            frac = 0.0
        if not 0.0 < frac < 1.0:
            self.fail(f"{text} is no share; want 1% to 99%", param, ctx)
        return frac


@click.group(
    short_help="Show which policies decide; let another take over.",
    epilog="Example: roostctl policy promote order:learned --canary 10%",
)
def policy() -> None:
    """Show which policies decide, and let one take over from another.

    NAME is a policy of `policy list`: order:las, or las where only one slot has it. The way is:
    shadow, evaluate, promote with --canary, promote; rollback at any time.
    """


@policy.command(name="list", epilog="Example: roostctl policy list")
@json_option
@pass_options
def list_(options: Options, as_json: bool) -> None:
    """List the policies that each slot could have."""
    with PolicyClient(options.daemon, options.timeout_s) as client:
        found = client.list_policies()
    if as_json:
        print_document(message_document(_LIST_SCHEMA, found))
        return
    console = new_console()
    show(console, listing(console, _HEADS, [_row(choice) for choice in found.policies]))


@policy.command(
    name="show",
    short_help="Show what decides in a slot, and how it does.",
    epilog="Example: roostctl policy show order",
)
@click.argument("slot", default="")
@json_option
@pass_options
def show_(options: Options, slot: str, as_json: bool) -> None:
    """Show what decides in a slot, what was promised of it, and what is observed."""
    with PolicyClient(options.daemon, options.timeout_s) as client:
        found = client.show_policies(slot)
    _print(found, as_json)


@policy.command(epilog="Example: roostctl policy shadow order:learned")
@click.argument("name", default="")
@click.option("--off", is_flag=True, help="No policy decides in shadow any more.")
@admin_option
@json_option
@pass_options
def shadow(options: Options, name: str, off: bool, admin: str, as_json: bool) -> None:
    """Let a policy decide beside the active one, without effect."""
    if bool(name) == off:
        raise click.UsageError("want NAME, or --off")
    with PolicyAdminClient(admin_address(options, admin), options.timeout_s) as client:
        _print(client.shadow(name, caller_name()), as_json)


@policy.command(
    short_help="Compare a policy with the active one.",
    epilog="Example: roostctl policy evaluate order:learned --last 7d",
)
@click.argument("name")
@click.option(
    "--last",
    "last_s",
    type=Span(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Compare the jobs that came in this time: 12h, 7d, 2w.",
)
@admin_option
@json_option
@pass_options
@click.pass_context
def evaluate(
    ctx: click.Context, options: Options, name: str, last_s: float, admin: str, as_json: bool
) -> None:
    """Compare a policy with the active one on the site's own journal; takes minutes.

    Exits with 1 where the policy may not be promoted by this comparison.
    """
    with PolicyAdminClient(admin_address(options, admin), options.timeout_s) as client:
        found = client.evaluate(name, caller_name(), last_s)
    if as_json:
        print_document(message_document(_EVALUATION_SCHEMA, found))
    else:
        show(new_console(), *_evaluation(found))
    if found.refusal:
        ctx.exit(1)


@policy.command(epilog="Example: roostctl policy promote order:learned --canary 10%")
@click.argument("name")
@click.option(
    "--canary",
    "canary_frac",
    type=Share(),
    default=None,
    metavar="SHARE",
    help="Only for the jobs of this share of the users, such as 10%, by their ids.  "
    "[default: all users]",
)
@click.option("--force", is_flag=True, help="In spite of a refusal; the audit log keeps it.")
@admin_option
@json_option
@pass_options
def promote(
    options: Options,
    name: str,
    canary_frac: float | None,
    force: bool,
    admin: str,
    as_json: bool,
) -> None:
    """Let a policy decide, for a share of the users first.

    Refused, with the figures, unless an evaluation shows that average and p99 completion times are
    not worse, and unless a canary has run.
    """
    with PolicyAdminClient(admin_address(options, admin), options.timeout_s) as client:
        _print(client.promote(name, caller_name(), canary_frac or 0.0, force), as_json)


@policy.command(
    short_help="Take a promoted policy out of its slot.",
    epilog="Example: roostctl policy rollback order",
)
@click.argument("slot", default="")
@admin_option
@json_option
@pass_options
def rollback(options: Options, slot: str, admin: str, as_json: bool) -> None:
    """Take a promoted policy out of its slot: the canary, or else the one for all users.

    Without SLOT, the policy that was promoted last.
    """
    with PolicyAdminClient(admin_address(options, admin), options.timeout_s) as client:
        _print(client.rollback(slot, caller_name()), as_json)


def _print(found: pb.ShowPoliciesResponse, as_json: bool) -> None:
    if as_json:
        print_document(message_document(_SCHEMA, found))
        return
    console = new_console()
    show(console, *_sections(console, found))


def _row(choice: pb.PolicyChoice) -> tuple[Cell, ...]:
    roles = []
    if choice.is_active:
        roles.append("yes")
    if choice.canary_frac:
        roles.append(f"canary, {percent(choice.canary_frac)} of users")
    if choice.is_shadow:
        roles.append("in shadow")
    if choice.is_configured and not choice.is_active:
        roles.append("configured")
    fault = Text(safe_text(choice.fault), "red") if choice.fault else ABSENT
    return (
        choice.slot,
        safe_text(choice.name),
        ", ".join(roles) or ABSENT,
        safe_text(choice.identity) or ABSENT,
        fault,
    )


def _sections(console: Console, found: pb.ShowPoliciesResponse) -> Iterator[RenderableType]:
    rows: list[tuple[Cell, ...]] = [
        (
            state.slot,
            safe_text(state.active),
            safe_text(state.configured),
            _who(state.promotion) if state.HasField("promotion") else ABSENT,
            _canary(state.canary) if state.HasField("canary") else ABSENT,
        )
        for state in found.slots
    ]
    yield listing(console, ("SLOT", "ACTIVE", "CONFIGURED", "PROMOTED", "CANARY"), rows)
    if found.fault:
        yield prose(safe_text(found.fault), "red")
    for state in found.slots:
        for one in (state.promotion, state.canary):
            if one.policy:
                yield from _watched(one)
        if state.HasField("last_rollback"):
            back = state.last_rollback
            yield prose(
                f"{safe_text(back.policy)} was taken out {_ago(back.at_epoch_s)} by"
                f" {safe_text(back.by)}: {safe_text(back.reason)}"
            )
    if found.HasField("shadow"):
        yield prose(_in_shadow(found.shadow))


def _who(promotion: pb.Promotion) -> str:
    forced = ", by force" if promotion.is_forced else ""
    return f"{_ago(promotion.at_epoch_s)} by {safe_text(promotion.by)}{forced}"


def _canary(promotion: pb.Promotion) -> str:
    share = percent(promotion.share_frac)
    return f"{safe_text(promotion.policy)} for {share} of users, {_who(promotion)}"


def _watched(promotion: pb.Promotion) -> Iterator[RenderableType]:
    name = safe_text(promotion.policy)
    if promotion.fault:
        yield prose(f"{name} does not decide: {safe_text(promotion.fault)}", "red")
    if not promotion.job_count:
        yield prose(f"{name}: no job has ended under it yet.")
        return
    parts = [f"its {promotion.job_count} jobs lost {percent(promotion.observed_lost_frac)}"]
    if promotion.HasField("other_lost_frac"):
        others = percent(promotion.other_lost_frac)
        parts.append(f"the {promotion.other_job_count} of other users {others}")
    if promotion.HasField("predicted_lost_frac"):
        parts.append(f"{percent(promotion.predicted_lost_frac)} was predicted")
    yield prose(
        f"{name}: of their completion time {', '.join(parts)}. Evidence against it:"
        f" {promotion.evidence:.2g}; at {promotion.evidence_limit:.0f} it is taken out."
    )


def _in_shadow(shadow: pb.ShadowState) -> str:
    name, since = safe_text(shadow.policy), _ago(shadow.since_epoch_s)
    if shadow.fault:
        return f"{name} was put in shadow {since} and stands still: {safe_text(shadow.fault)}"
    gain = ""
    if shadow.HasField("expected_gain_s"):
        word = "later" if shadow.expected_gain_s > 0 else "earlier"
        gain = f" It expects jobs to end {duration(abs(shadow.expected_gain_s))} {word} on average."
    return (
        f"{name} decides in shadow since {since}: of {shadow.decision_count} placements it would"
        f" have made {shadow.elsewhere_count} elsewhere and {shadow.waiting_count} not yet.{gain}"
    )


def _evaluation(found: pb.PolicyEvaluation) -> Iterator[RenderableType]:
    active, candidate = found.active, found.candidate
    rows: list[tuple[Cell, ...]] = [
        _figures("average completion", active.avg_jct_s, candidate.avg_jct_s, found.avg_ratio),
        _figures("p99 completion", active.p99_jct_s, candidate.p99_jct_s, found.p99_ratio),
        ("time lost", percent(active.lost_frac), percent(candidate.lost_frac), ABSENT),
        ("preemptions", str(active.preemption_count), str(candidate.preemption_count), ABSENT),
    ]
    heads = ("", safe_text(active.policy), safe_text(candidate.policy), "RATIO (95 %)")
    yield listing(new_console(), heads, rows)
    yield pairs(
        [
            ("Jobs", f"{found.job_count} of {duration(found.window_s)}, both simulated"),
            ("Left out", f"{found.left_out_count} that did not end in both"),
            ("Recorded", f"{duration(found.recorded_avg_jct_s)} average completion"),
        ]
    )
    if found.refusal:
        yield prose(f"It may not be promoted: {safe_text(found.refusal)}.", "red")
    else:
        yield prose("It may be promoted.", "green")


def _figures(
    name: str, active_s: float, candidate_s: float, ratio: pb.PolicyRatio
) -> tuple[Cell, ...]:
    interval = f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
    return name, duration(active_s), duration(candidate_s), interval


def _ago(epoch_s: float) -> str:
    return f"{duration(max(time.time() - epoch_s, 0.0))} ago"
