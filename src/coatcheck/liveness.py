"""Which process a worker is, whether that process is known to be dead, and how to end it if it has but one task.

Proof exists only for processes seen from the same kernel and pid namespace; for all others the lease decides.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import socket
from pathlib import Path

TASK_VARIABLE = "COATCHECK_TASK"
"""In the environment of a process that has one task: its id."""
_DETACHED = "detached-"
_PROC = Path("/proc")


def name_worker(*, is_detached: bool = False) -> str:
    """Return a name no other worker has: host, pid, when the process started, where pids are counted, a salt.

    `is_detached`: the process has one task only, so that whoever takes the task away may end the process.
    """
    pid = os.getpid()
    host = socket.gethostname().replace(":", "-")
    salt = f"{_DETACHED if is_detached else ''}{secrets.token_hex(4)}"
    return f"{host}:{pid}:{_start_time(pid) or 0}:{_pid_space()}:{salt}"


def is_dead(worker: str) -> bool:
    """True only if `worker`'s process has certainly ended; a reused pid fools nobody."""
    match worker.split(":"):
        case [_, pid, started, space, _] if _is_number(pid) and _is_number(started) and space == _pid_space() != "":
            now_started = _start_time(int(pid))
            return not _exists(int(pid)) if now_started is None else now_started != int(started)
        case _:
            return False


def interrupt(worker: str, task_id: str, number: signal.Signals = signal.SIGTERM) -> bool:
    """Send a signal to the process that `worker` is and that has this task only; say whether there is one.

    SIGKILL is for all that the process has started, too. No other process is ever sent anything: host, start time and
    the task in its environment have to be the same.
    """
    match worker.split(":"):
        case [_, pid, started, space, salt] if (
            salt.startswith(_DETACHED) and _is_number(pid) and _is_number(started) and space == _pid_space() != ""
        ):
            return _signal(int(pid), int(started), task_id, number)
        case _:
            return False


def _signal(pid: int, started: int, task_id: str, number: signal.Signals) -> bool:
    try:
        process = os.pidfd_open(pid)  # from here on it cannot become another one under our hands
    except (OSError, OverflowError):
        return False
    try:
        if _start_time(pid) != started or not _has_task(pid, task_id):
            return False
        if number is signal.SIGKILL and os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            signal.pidfd_send_signal(process, number)
    except OSError:
        return False
    finally:
        os.close(process)
    return True


def _has_task(pid: int, task_id: str) -> bool:
    """A row that somebody forged must not make us end what is no business of ours."""
    return f"{TASK_VARIABLE}={task_id}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")


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
