"""gres.conf and slurm.conf while some nodes have types by index and others still their own.

Slurm takes both side by side, each node by its own lines. So one node at a time gets the lines
that `roost-slurm config` made, or the site's own back, and no line of another node changes.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from roost_slurm.site.conf_text import conf_lines
from roost_slurm.text.hostlist import HostlistError, compress, expand

_NODE_NAME = re.compile(r"(?i)^(\s*NodeName\s*=\s*)(\S+)(.*)$")
_WORD = re.compile(r"(?i)\s(Gres|Features?)\s*=\s*(\S+)")
# Lists that have one entry for each name of the line, or one for all.
_BY_NODE = re.compile(r"(?i)(?<=\s)(NodeAddr|NodeHostname|BcastAddr|Port)(\s*=\s*)(\S+)")
_AUTO_DETECT = re.compile(r"(?i)\bAutoDetect=(?!off)\w+")
_GLOBAL_OFF = re.compile(r"(?i)^\s*AutoDetect=off\s*$")


class MigrateError(ValueError):
    """A file cannot be changed for a node; says which line, and the cure."""


@dataclass(frozen=True, slots=True)
class NodeWords:
    """What a NodeName line says of GPUs: Gres= and Feature=, "" where it has none."""

    gres: str = ""
    features: str = ""


def words_of(text: str, node: str) -> NodeWords | None:
    """Return what the NodeName line of a node says, in slurm.conf or nodes.conf; None: no line."""
    for line in conf_lines(text):
        match = _NODE_NAME.match(line.text)
        if match and node in _hosts(match[2], line.text):
            found = {key.lower()[:7]: value for key, value in _WORD.findall(match[3])}
            return NodeWords(found.get("gres", ""), found.get("feature", ""))
    return None


def slurm_conf(text: str, node: str, words: NodeWords) -> str:
    """Return slurm.conf with other words on the line of one node, which gets a line of its own.

    Raises:
        MigrateError: the node has no NodeName line here.
    """
    out, found = list[str](), False
    for line in conf_lines(text):
        match = _NODE_NAME.match(line.text)
        if not match or node not in (all_hosts := _hosts(match[2], line.text)):
            out += line.lines
            continue
        found = True
        others = [host for host in all_hosts if host != node]
        if others:
            rest = _by_node(match[3], all_hosts, lambda host: host != node)
            out.append(f"{match[1]}{_list_of(others)}{rest}{line.comment}")
        rest = _WORD.sub("", _by_node(match[3], all_hosts, lambda host: host == node))
        added = f" Gres={words.gres}" if words.gres else ""
        added += f" Feature={words.features}" if words.features else ""
        out.append(f"{match[1]}{node}{added}{rest}{line.comment}")
    if not found:
        raise MigrateError(
            f"slurm.conf has no NodeName line with {node}; cure: change the included file by hand:"
            f" Gres={words.gres}"
        )
    return "\n".join(out) + "\n"


def _by_node(words: str, hosts: Sequence[str], is_kept: Callable[[str], bool]) -> str:
    """Return the words of a NodeName line with the addresses and ports of some of its nodes."""

    def kept(match: re.Match[str]) -> str:
        entries = _hosts(match[3], match[0])
        if len(entries) == 1 or len(entries) != len(hosts):
            return match[0]
        chosen = [entry for entry, host in zip(entries, hosts, strict=True) if is_kept(host)]
        return f"{match[1]}{match[2]}{_list_of(chosen)}"

    return _BY_NODE.sub(kept, words)


def _list_of(names: Sequence[str]) -> str:
    """Return names in short form, in their order: the entries of two lists go together."""
    short = compress(names)
    return short if expand(short) == list(names) else ",".join(names)


def gres_conf(text: str, source: str, node: str, all_nodes: Sequence[str]) -> str:
    """Return gres.conf in which one node has the lines of another gres.conf.

    Args:
        text: the file as it is.
        source: where the node's new lines come from.
        node: the node.
        all_nodes: every node with GPUs; lines without NodeName are for them.
    """
    kept = [*_without(text, node, all_nodes)]
    auto = any(_AUTO_DETECT.search(line) for line in kept)
    new = [*_only(source, node, set(all_nodes))]
    if auto:
        # Detection of other nodes would rename this node's types.
        new = [line.replace(f"NodeName={node}", f"NodeName={node} AutoDetect=off") for line in new]
    return "\n".join([*kept, *new]) + "\n"


def _without(text: str, node: str, all_nodes: Sequence[str]) -> Iterator[str]:
    for line in conf_lines(text):
        if not line.text.strip() or _GLOBAL_OFF.match(line.text):
            yield from line.lines
            continue
        match = _NODE_NAME.match(line.text)
        hosts = _hosts(match[2], line.text) if match else list(all_nodes)
        rest = match[3] if match else f" {line.text.strip()}"
        if node not in hosts:
            yield from line.lines
        elif others := [host for host in hosts if host != node]:
            yield f"NodeName={compress(others)}{rest}{line.comment}"


def _only(text: str, node: str, all_nodes: Collection[str]) -> Iterator[str]:
    for line in conf_lines(text):
        if not line.text.strip() or _GLOBAL_OFF.match(line.text):
            continue
        match = _NODE_NAME.match(line.text)
        if match and node in _hosts(match[2], line.text):
            yield f"NodeName={node}{match[3]}{line.comment}"
        elif not match and node in all_nodes:
            yield f"NodeName={node} {line.text.strip()}"


def _hosts(text: str, line: str) -> list[str]:
    if text.upper() == "DEFAULT":
        return []
    try:
        return expand(text)
    except HostlistError as error:
        raise MigrateError(f"{line.strip()}: {error}") from error
