"""Ports of a throw-away cluster: a block that no other one takes, on the loopback interface."""

import random
import socket

_PORT_BLOCK = 256
_PORT_BLOCKS = range(10_000, 32_768 - _PORT_BLOCK, _PORT_BLOCK)  # below Linux' ephemeral ports


def own_name_is_loopback() -> bool:
    """Return whether daemons can listen on 127.0.0.1 alone: Slurm takes the host's own name.

    Debian's installer writes "127.0.1.1 NAME" into /etc/hosts, and cloud images none at all. Then
    they listen everywhere, behind this cluster's own MUNGE key.
    """
    try:
        return socket.gethostbyname(socket.gethostname()) == "127.0.0.1"
    except OSError:
        return False


def claim(count: int) -> tuple[int, socket.socket] | None:
    """Find consecutive free ports; no other cluster takes them while the lock is open.

    Returns:
        The first port and the lock; None where no block is free, or none is so long.
    """
    if count > _PORT_BLOCK:
        return None
    for first_port in random.sample(_PORT_BLOCKS, len(_PORT_BLOCKS)):
        # An abstract UNIX socket is a lock that cannot be left behind.
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0roost-local-slurm-{first_port}")
            for port in range(first_port, first_port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            continue
        return first_port, lock
    return None
