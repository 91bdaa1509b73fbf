"""What the worker process can no longer do."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine.columnar.worker.database import open_database
from engine.priority import NICENESS

PROGRAM = """
import os, resource, socket
from engine.columnar.worker import sandbox
alone = sandbox.enter({keep}, {limit})
def reachable():
    try:
        socket.create_connection(("127.0.0.1", {port}), 2).close()
        return True
    except OSError:
        return False
def is_open(descriptor):
    try:
        return bool(os.fstat(descriptor))
    except OSError:
        return False
def allocates(size):
    try:
        return len(bytearray(size)) == size
    except MemoryError:
        return False
print(alone, reachable(), is_open({extra}), is_open({keep}),
      allocates(100 << 20), allocates(12 << 30), resource.getrlimit(resource.RLIMIT_CORE)[1])
"""


STANDING = """
import os, threading
from engine.columnar.worker import sandbox
sandbox.enter({keep}, 1 << 30)
def show():
    group = []
    if os.path.exists("/proc/self/autogroup"):  # not every kernel has them, nor every container's processes one
        with open("/proc/self/autogroup") as file:
            group = file.read().split()[-1:]
    print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0), *group)
thread = threading.Thread(target=show)
thread.start()
thread.join()
"""


def niceness_of_group() -> list[int]:
    """That of this process's scheduling group; nothing where the kernel has no such groups or it is in none."""
    place = Path("/proc/self/autogroup")
    return [int(word) for word in place.read_text().split()[-1:]] if place.exists() else []


@pytest.mark.parametrize("alone", [False, True])
def test_the_process_and_its_threads_stand_back_from_processors_that_others_want(alone: bool) -> None:
    ours, theirs = socket.socketpair()
    before = niceness_of_group()
    with ours, theirs:
        command = [sys.executable, "-c", STANDING.format(keep=theirs.fileno())]
        done = subprocess.run(
            command, pass_fds=(theirs.fileno(),), capture_output=True, text=True, check=True, start_new_session=alone
        )
    niceness, policy, *group = map(int, done.stdout.split())
    assert (niceness, policy) == (min(os.nice(0) + NICENESS, 19), os.SCHED_BATCH)
    if not alone:
        assert group == before  # others are in it


HELD = """
import re
from engine.columnar.worker import sandbox
sandbox.end_with_parent()
print("held", flush=True)
re.search(r"(.+)(.+)\\1\\2x", "ab" * 3000)  # one call into C, for hours
"""


def test_the_process_ends_with_its_parent_whatever_it_does() -> None:
    held = subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert held.stdin is not None and held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        held.stdin.close()
        assert held.wait(30) == -signal.SIGIO
    finally:
        held.kill()


def test_the_process_ends_if_its_parent_has_ended_before_it_looked() -> None:
    assert subprocess.run([sys.executable, "-c", HELD], stdin=subprocess.DEVNULL, check=False).returncode == 1


MANY = """
import resource, threading
from engine.columnar.worker import sandbox
sandbox.enter({keep}, 100 << 20)
over = threading.Event()
for number in range(100):
    threading.Thread(target=over.wait).start()
print(number)
over.set()
"""


def test_stacks_of_threads_leave_room_where_those_of_the_parent_are_large() -> None:
    ours, theirs = socket.socketpair()
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard))
    try:
        with ours, theirs:
            command = [sys.executable, "-c", MANY.format(keep=theirs.fileno())]
            done = subprocess.run(command, pass_fds=(theirs.fileno(),), capture_output=True, text=True, check=False)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    assert done.stdout == "99\n", done.stderr


def test_the_process_gives_up_network_descriptors_and_memory() -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener, ours, theirs:
        program = PROGRAM.format(keep=theirs.fileno(), extra=read, port=listener.getsockname()[1], limit=1 << 30)
        done = subprocess.run(
            [sys.executable, "-c", program],
            pass_fds=(theirs.fileno(), read),
            capture_output=True,
            text=True,
            check=True,
        )
    os.close(read)
    os.close(write)
    alone, reachable, extra, kept, small, large, core = done.stdout.split()
    assert reachable != alone  # out of reach wherever the kernel lets us cut it off
    assert (extra, kept, small, large, core) == ("False", "True", "True", "False", "0")


REFUSED = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "COPY (SELECT 1) TO '/tmp/out.csv'",
    "ATTACH '/tmp/other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "SET TimeZone = 'Europe/Prague'",
    "PRAGMA temp_directory = '/tmp/elsewhere'",
    "SELECT * FROM local_variable",
    "SELECT getenv('HOME')",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_duckdb_is_closed_to_the_outside(sql: str, tmp_path: object) -> None:
    connection = open_database(256 << 20, 1, str(tmp_path))
    local_variable = [1]  # not to be found by DuckDB's replacement scans
    assert local_variable
    for each in (connection, connection.cursor()):
        with pytest.raises(Exception) as caught:
            each.execute(sql).fetchall()
        assert type(caught.value).__module__.endswith("duckdb")


def test_spilling_goes_to_its_directory(tmp_path: object) -> None:
    connection = open_database(64 << 20, 2, str(tmp_path))
    sql = "SELECT count(*) FROM (SELECT range, random() AS x FROM range(6000000) ORDER BY x OFFSET 10)"
    assert connection.execute(sql).fetchone() == (5_999_990,)
