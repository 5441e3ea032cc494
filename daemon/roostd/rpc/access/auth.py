"""Which callers may report for a node, and which may read its plans."""

from roostd.rpc.access.peers import host_of
from roostd.rpc.errors import Context
from roostd.telemetry.board import NodeReport


def node_names(context: Context) -> frozenset[str] | None:
    """Return the names in the caller's certificate; None where the port has no TLS."""
    auth = context.auth_context()
    if b"ssl" not in auth.get("transport_security_type", ()):
        return None
    names = auth.get("x509_subject_alternative_name", ())
    return frozenset(name.decode("utf-8", "replace") for name in names)


def may_speak_for(context: Context, node: str) -> bool:
    """Return whether the caller's certificate names the node, with or without a domain.

    Without TLS every caller may report for every node.
    """
    names = node_names(context)
    return names is None or any(name == node or name.startswith(f"{node}.") for name in names)


def why_not_answered(context: Context, node: str, report: NodeReport | None) -> str | None:
    """Return why the caller may not read the plans of a node; None: it may.

    A plan shows other users' jobs, so only the node itself may read it. With mutual TLS the
    certificate proves that. Without it the caller must be on the host of the node's probe, and this
    probe must name GPUs that the node is known to have.
    """
    if node_names(context) is not None:
        return None if may_speak_for(context, node) else f"the certificate does not name {node}"
    if report is None or not report.is_known or report.claim.host != host_of(context.peer()):
        return f"without mutual TLS plans for {node} are sent only to the host of its probe"
    return None
