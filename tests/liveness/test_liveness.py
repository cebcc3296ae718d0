"""Whether a worker's process has ended: said only where it is certain."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from coatcheck.liveness import is_dead, name_worker

HOST, PID, STARTED, SPACE, SALT = name_worker().split(":")
WORKER = """
import sys
from coatcheck.liveness import name_worker
if len(sys.argv) > 1:
    open("/proc/self/comm", "wb").write(bytes.fromhex(sys.argv[1]))
print(name_worker(), flush=True)
sys.stdin.read()
"""
CHILD = (sys.executable, "-c", WORKER)
APART = ("unshare", "--pid", "--fork", "--mount-proc")


@contextmanager
def a_worker(*command: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Start a process that names itself, and ends with its standard input at the latest."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def test_this_process_is_not_dead() -> None:
    assert not is_dead(name_worker())


def test_two_workers_of_one_process_have_two_names() -> None:
    assert name_worker() != name_worker()


@pytest.mark.slow
def test_a_living_process_is_not_dead() -> None:
    with a_worker(*CHILD) as (process, name):
        assert name.split(":")[1] == str(process.pid)
        assert not is_dead(name)


@pytest.mark.slow
def test_a_killed_process_is_dead() -> None:
    with a_worker(*CHILD) as (process, name):
        process.kill()
        process.wait()
        assert is_dead(name)


@pytest.mark.slow
def test_a_process_that_ended_by_itself_is_dead() -> None:
    with a_worker(*CHILD) as (process, name):
        process.communicate()
        assert process.returncode == 0
        assert is_dead(name)


@pytest.mark.slow
def test_a_killed_process_is_dead_even_if_nobody_has_taken_note_of_its_end() -> None:
    with a_worker(*CHILD) as (process, name):
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)
        assert is_dead(name)


@pytest.mark.slow
def test_a_stopped_process_is_not_dead() -> None:
    with a_worker(*CHILD) as (process, name):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            assert not is_dead(name)
        finally:
            process.send_signal(signal.SIGCONT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [b"a) Z 1 (b", b"two words", b"caf\xc3\xa9", b"caf\xc3"],
    ids=["parentheses", "spaces", "unicode", "half a letter"],
)
def test_the_name_of_its_command_does_not_matter(command: bytes) -> None:
    with a_worker(*CHILD, command.hex()) as (process, name):
        assert not is_dead(name)
        process.kill()
        process.wait()
        assert is_dead(name)


def test_another_process_with_the_same_pid_does_not_keep_a_dead_one_alive() -> None:
    assert is_dead(f"{HOST}:{PID}:{int(STARTED) - 1}:{SPACE}:{SALT}")


@pytest.mark.parametrize("space", ["00000000", SPACE + "0", ""], ids=["another", "longer", "none"])
def test_a_pid_counted_elsewhere_proves_nothing(space: str) -> None:
    assert not is_dead(f"{HOST}:{PID}:{int(STARTED) - 1}:{space}:{SALT}")
    assert not is_dead(f"elsewhere:{2**22}:1:{space}:{SALT}")


@pytest.mark.slow
def test_a_process_of_another_pid_namespace_is_never_said_to_be_dead() -> None:
    if subprocess.run((*APART, "true"), check=False, capture_output=True).returncode:
        pytest.skip("needs the right to make a pid namespace")
    with a_worker(*APART, *CHILD) as (process, name):
        assert name.split(":")[3] not in ("", SPACE)
        assert not is_dead(name)
        process.communicate()
        assert not is_dead(name)


MALFORMED = {
    "empty": "",
    "a word": "w",
    "four colons": "::::",
    "five colons": ":::::",
    "a host": HOST,
    "a host and a pid": f"{HOST}:{PID}",
    "no salt": f"{HOST}:{PID}:{int(STARTED) - 1}:{SPACE}",
    "too much": f"{HOST}:{PID}:{int(STARTED) - 1}:{SPACE}:{SALT}:more",
    "a word for a pid": f"{HOST}:pid:{STARTED}:{SPACE}:{SALT}",
    "a negative pid": f"{HOST}:-1:{STARTED}:{SPACE}:{SALT}",
    "a fraction of a pid": f"{HOST}:{PID}.5:{STARTED}:{SPACE}:{SALT}",
    "no pid": f"{HOST}::{STARTED}:{SPACE}:{SALT}",
    "a digit that is no number": f"{HOST}:\N{SUPERSCRIPT TWO}:{STARTED}:{SPACE}:{SALT}",
    "a pid that no kernel has": f"{HOST}:{10**30}:{STARTED}:{SPACE}:{SALT}",
    "a pid of 5000 digits": f"{HOST}:{'9' * 5000}:{STARTED}:{SPACE}:{SALT}",
    "a word for a start": f"{HOST}:{PID}:then:{SPACE}:{SALT}",
    "no start": f"{HOST}:{PID}::{SPACE}:{SALT}",
    "a digit for a start": f"{HOST}:{PID}:\N{SUPERSCRIPT TWO}:{SPACE}:{SALT}",
}


@pytest.mark.parametrize("name", MALFORMED.values(), ids=MALFORMED)
def test_a_name_that_says_nothing_proves_nothing(name: str) -> None:
    assert not is_dead(name)
