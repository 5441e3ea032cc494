"""Run a program where only the loopback leads anywhere: `no_routes.py PROGRAM ARGUMENT...`."""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def main(argv: list[str]) -> None:
    """Enter a network of its own, raise its loopback, and become the program."""
    flags = CLONE_NEWNET | (CLONE_NEWUSER if os.geteuid() else 0)
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket() as any_socket:
        request = struct.pack("16sh22x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
