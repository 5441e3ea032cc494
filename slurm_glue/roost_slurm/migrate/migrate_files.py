"""gres.conf and slurm.conf while some nodes have types by index and others still their own.

Slurm takes both side by side, each node by its own lines. So one node at a time gets the lines
that `roost-slurm config` made, or the site's own back, and no line of another node changes.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from roost_slurm.site.conf_text import ConfText, conf_lines
from roost_slurm.text.hostlist import HostlistError, compress, expand
from roost_slurm.text.tres import GPU, SEAT_TOKEN

_NODE_NAME = re.compile(r"(?i)^(\s*NodeName\s*=\s*)(\S+)(.*)$")
_WORD = re.compile(r"""(?i)\s(Gres|Features?)\s*=\s*("[^"]*"|\S+)""")
_NAME = re.compile(r"(?i)(?:^|\s)Name\s*=\s*(\S+)")
_INCLUDE = re.compile(r"(?i)\s*include\s")
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


def node_words(lines: Iterable[ConfText]) -> dict[str, NodeWords]:
    """Return what the NodeName lines say of each node.

    What a node's own line leaves out comes from the NodeName=DEFAULT lines before it.
    """
    default, found = dict[str, str](), dict[str, NodeWords]()
    for line in lines:
        match = _NODE_NAME.match(line.text)
        if match is None:
            continue
        own = {key.lower()[:7]: value.strip('"') for key, value in _WORD.findall(match[3])}
        if match[2].strip('"').upper() == "DEFAULT":
            default |= own
            continue
        words = default | own
        for host in _hosts(match[2], line.text):
            found.setdefault(host, NodeWords(words.get("gres", ""), words.get("feature", "")))
    return found


def gres_names(gres: str) -> frozenset[str]:
    """Return the names in a Gres=: {"gpu", "nvme"}."""
    return frozenset(entry.partition(":")[0] for entry in gres.split(",") if entry)


def with_others(new: NodeWords, own: str) -> NodeWords:
    """Return Roost's words of a node with what its own Gres= has beside GPUs: nvme, shard.

    Tokens of models, which Roost has written at an earlier time, are not the site's.
    """
    roosts = gres_names(new.gres) | {GPU, SEAT_TOKEN} | {*new.features.split(",")}
    others = [entry for entry in own.split(",") if not gres_names(entry) <= roosts]
    return NodeWords(",".join([new.gres, *others]), new.features)


def slurm_conf(text: str, words: Mapping[str, NodeWords]) -> str:
    """Return a slurm.conf with other words on the lines of some nodes.

    Nodes of one line that get the same words stay together.

    Raises:
        MigrateError: a node has no NodeName line here.
    """
    out, missing = list[str](), set(words)
    for line in conf_lines(text):
        match = _NODE_NAME.match(line.text)
        hosts = _hosts(match[2], line.text) if match else []
        if match is None or missing.isdisjoint(hosts):
            out += line.lines
            continue
        groups = dict[NodeWords | None, list[str]]()
        for host in hosts:
            groups.setdefault(words.get(host), []).append(host)
        missing.difference_update(hosts)
        kept = groups.pop(None, [])
        for new, names in ((None, kept), *groups.items()):
            if names:
                rest = _by_node(match[3], hosts, set(names).__contains__)
                rest = rest if new is None else _with_words(rest, new)
                out.append(f"{match[1]}{_list_of(names)}{rest}{line.comment}")
    for node in sorted(missing):
        raise MigrateError(
            f"no NodeName line with {node}; cure: change its line by hand: Gres={words[node].gres}"
        )
    return "\n".join(out) + "\n"


def _with_words(rest: str, words: NodeWords) -> str:
    added = f" Gres={words.gres}" if words.gres else ""
    added += f" Feature={words.features}" if words.features else ""
    return f"{added}{_WORD.sub('', rest)}"


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


def gres_conf(
    text: str,
    source: str,
    node: str,
    all_nodes: Collection[str],
    kept: Collection[str] = frozenset(),
) -> str:
    """Return gres.conf in which one node has the lines of another gres.conf.

    Args:
        text: the file as it is.
        source: where the node's new lines come from.
        node: the node.
        all_nodes: every node with GPUs; lines without NodeName are for them.
        kept: names of resources whose lines stay as they are: nvme. So do lines without NodeName
            of any resource beside GPUs.

    Raises:
        MigrateError: a line cannot be read, or includes another file.
    """
    lines = [*_without(text, node, sorted(all_nodes), kept)]
    auto = any(_AUTO_DETECT.search(line) for line in lines)
    new = [*_only(source, node, all_nodes, kept)]
    if auto:
        # Detection of other nodes would rename this node's types.
        new = [line.replace(f"NodeName={node}", f"NodeName={node} AutoDetect=off") for line in new]
    return "\n".join([*lines, *new]) + "\n"


def _without(
    text: str, node: str, all_nodes: Sequence[str], kept: Collection[str]
) -> Iterator[str]:
    for line in conf_lines(text):
        if _stays(line, kept):
            yield from line.lines
            continue
        if _INCLUDE.match(line.text):
            raise MigrateError(
                f"gres.conf:{line.number}: {line.text.strip()}: cure: put the lines of that file"
                " in its place"
            )
        match = _NODE_NAME.match(line.text)
        hosts = _hosts(match[2], line.text) if match else [*all_nodes]
        rest = match[3] if match else f" {line.text.strip()}"
        if node not in hosts:
            yield from line.lines
        elif others := [host for host in hosts if host != node]:
            yield f"NodeName={compress(others)}{rest}{line.comment}"


def _only(text: str, node: str, all_nodes: Collection[str], kept: Collection[str]) -> Iterator[str]:
    for line in conf_lines(text):
        if _stays(line, kept):
            continue
        match = _NODE_NAME.match(line.text)
        if match and node in _hosts(match[2], line.text):
            yield f"NodeName={node}{match[3]}{line.comment}"
        elif not match and node in all_nodes:
            yield f"NodeName={node} {line.text.strip()}"


def _stays(line: ConfText, kept: Collection[str]) -> bool:
    """Whether a line of gres.conf is the same before and after: it is not of one node's GPUs.

    A resource beside GPUs that every node has is one of CPU nodes too.
    """
    if not line.text.strip() or _GLOBAL_OFF.match(line.text):
        return True
    match = _NAME.search(line.text)
    name = match[1].strip('"').lower() if match else GPU  # AutoDetect= alone is of GPUs
    is_for_all = name not in (GPU, SEAT_TOKEN) and not _NODE_NAME.match(line.text)
    return is_for_all or name in map(str.lower, kept)


def _hosts(text: str, line: str) -> list[str]:
    names = text.strip('"')
    if names.upper() == "DEFAULT":
        return []
    try:
        return expand(names)
    except HostlistError as error:
        raise MigrateError(f"{line.strip()}: {error}") from error
