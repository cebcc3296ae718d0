"""Which process a worker is, and whether that process is known to be dead.

Proof exists only for processes seen from the same kernel and pid namespace; for all others the lease decides.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from pathlib import Path

_PROC = Path("/proc")


def name_worker() -> str:
    """Return a name no other worker has: host, pid, when the process started, where pids are counted, a salt."""
    pid = os.getpid()
    host = socket.gethostname().replace(":", "-")
    return f"{host}:{pid}:{_start_time(pid) or 0}:{_pid_space()}:{secrets.token_hex(4)}"


def is_dead(worker: str) -> bool:
    """True only if `worker`'s process has certainly ended; a reused pid fools nobody."""
    match worker.split(":"):
        case [_, pid, started, space, _] if _is_number(pid) and _is_number(started) and space == _pid_space() != "":
            now_started = _start_time(int(pid))
            return not _exists(int(pid)) if now_started is None else now_started != int(started)
        case _:
            return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 2**63


def _start_time(pid: int) -> int | None:
    """Return the kernel's start time of a process, in ticks since boot. None: it cannot be seen; 0: it is a zombie."""
    try:
        # The second field, the command's name, may itself hold spaces and parentheses.
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def _exists(pid: int) -> bool:
    """Other users' processes may be hidden from us, but they can be told from none."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _pid_space() -> str:
    """Name the running kernel and the pid namespace; empty where they cannot be told."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        namespace = os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot}{namespace}".encode(), digest_size=4).hexdigest()
