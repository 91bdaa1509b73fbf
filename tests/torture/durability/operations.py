"""Every operation on files of a work fails, or is the last one that its process does: one after the other.

    python -m tests.torture.durability.operations --seconds 60       all works, points in a random order

`interpose.c` stands between the processes and the C library, so that what Python, LMDB and Arrow do is met alike. One
process imports everything, opens nothing, and forks for each point: the child does the work (works.py), and meets what
was asked for at the Nth operation below the work's directory:

    kill        SIGKILL before it              after      SIGKILL when it is done
    tear        half of a write, and SIGKILL
    EIO once    it fails, and all others work  EIO on     it fails, and all after it
    full        it fails by ENOSPC, and all after it

    cut         the power goes before it: the process is stopped, and the image of its file system is copied, mounted
                and recovered (`cut_all`; the others are on a file system in memory)

Another child looks then: what was acknowledged has to be there, everything else whole or absent, and it has to go on.
A work that met a failure must have ended by an error that says what is the matter, or have done everything all the
same.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import importlib
import json
import logging
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.torture.durability import power

if TYPE_CHECKING:
    from engine.columnar.worker.columns_file import ColumnsFile, Saved
    from tests.engine.storage.harness import Store
    from tests.torture.durability.works import Work

SOURCE = pathlib.Path(__file__).with_name("interpose.c")
ACTIONS = {"EIO once": 1, "EIO on": 2, "full": 2, "kill": 3, "after": 4, "tear": 5}
STOP = 6
_NUMBERS = {"full": errno.ENOSPC}
_MEMORY = pathlib.Path("/dev/shm")  # syncs cost nothing there, and mean nothing either: power cuts are another trial's
PROCESSES = os.cpu_count() or 1
PATIENCE = 30.0  # seconds for a child


@dataclass(slots=True)
class Met:
    """`points`: operations that were met, by work. `kinds`: by what they were."""

    points: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    all_points: dict[str, int] = field(default_factory=dict)  # operations of a work that nothing happens to
    problems: list[str] = field(default_factory=list)


def possible() -> bool:
    return sys.platform == "linux" and shutil.which("cc") is not None


def build(folder: pathlib.Path) -> pathlib.Path:
    """The library. Raises subprocess.CalledProcessError."""
    made = folder / "interpose.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE), "-ldl", "-lpthread"], check=True)
    return made


def meet_all(seconds: float, seed: int, only: str = "", points: int = 0, plant: str = "") -> Met:
    """Runs the works in a process of their own, with the library before it. `points`: at most so many a work, in place
    of a time. `plant`: see `_planted`."""
    found = Met()
    with tempfile.TemporaryDirectory(prefix="shoal-operations-", dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        library = build(pathlib.Path(folder))
        command = [sys.executable, "-m", "tests.torture.durability.operations", "--until", str(time.time() + seconds)]
        command += ["--seed", str(seed), "--only", only, "--points", str(points), "--plant", plant]
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        processes = []
        for number in range(PROCESSES):
            own = pathlib.Path(folder) / str(number)
            own.mkdir()
            whole = [*command, "--child", str(own), "--part", str(number)]
            processes.append(subprocess.Popen(whole, stdout=subprocess.PIPE, env=environment, text=True))
        for process in processes:
            told, _ = process.communicate()
            for line in told.splitlines():
                _note(found, json.loads(line))
            if process.returncode:
                found.problems.append(f"the works ended with {process.returncode}")
    return found


def _note(found: Met, told: dict[str, Any]) -> None:
    if "operations" in told:
        found.all_points[told["work"]] = told["operations"]
        return
    found.points[told["work"]] += 1
    found.kinds[told["met"].partition(" ")[0]] += 1
    if told["problem"]:
        where = f"{told['work']}: {told['action']} at operation {told['nth']} ({told['met']})"
        found.problems.append(f"{where}: {told['problem']}")


def cut_all(seconds: float, seed: int, only: str = "", points: int = 0, plant: str = "") -> Met:
    """The power goes before operations of all works, in a random order. Needs what `power.possible` asks for."""
    found = Met()
    with power.image(256) as disk, power.mounted(disk, disk.parent / "live") as live:
        library = build(disk.parent)
        command = [sys.executable, "-m", "tests.torture.durability.operations", "--until", str(time.time() + seconds)]
        command += ["--seed", str(seed), "--only", only, "--points", str(points), "--plant", plant]
        command += ["--child", str(disk.parent), "--cut", str(live)]
        told = subprocess.run(
            command, stdout=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": str(library)}, text=True, check=False
        )
        for line in told.stdout.splitlines():
            _note(found, json.loads(line))
        if told.returncode:
            found.problems.append(f"the works ended with {told.returncode}")
    return found


# --- in the process that forks --------------------------------------------------------------------------------------


class _Library:
    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.arm = library.interpose_arm
        self.arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
        self.counted = library.interpose_counted
        self.counted.restype = ctypes.c_long
        self.reached = library.interpose_reached
        self.reached.restype = ctypes.c_char_p


def _in_child(action: Callable[[Callable[[str], None]], None]) -> tuple[list[str], int]:
    """What a forked process has told, and how it ended: its status, or minus the signal; -1000: it hangs."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            action(lambda text: os.write(writing, text.encode() + b"\n") and None)
        except BaseException as error:
            os.write(writing, f"raised {type(error).__name__}: {str(error)[:200]}".replace("\n", " ").encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    end, data = time.monotonic() + PATIENCE, b""
    while time.monotonic() < end:
        if select.select([reading], [], [], 0.5)[0]:
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            data += piece
    else:
        os.kill(pid, signal.SIGKILL)
    hangs = time.monotonic() >= end
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return data.decode().splitlines(), -1000 if hangs else status


def _do(name: str, folder: pathlib.Path, nth: int, action: str, plant: str) -> tuple[int, str, int, str]:
    """(the last acknowledged number, what the operation was, operations counted, what is wrong with the end)."""
    from tests.torture.durability.works import REFUSALS, WORKS

    work = next(known for known in WORKS if known.name == name)
    library = _Library()

    def act(tell: Callable[[str], None]) -> None:
        _plant(plant)
        library.arm(str(folder / "data").encode(), nth, ACTIONS.get(action, 0), _NUMBERS.get(action, errno.EIO))
        try:
            work.run(folder, lambda number: tell(f"told {number}"))
            tell("done")
        except REFUSALS as error:
            tell(f"refused {error}".replace("\n", " ")[:300])

    lines, status = _in_child(act)
    acknowledged = max((int(line.split()[1]) for line in lines if line.startswith("told ")), default=0)
    reached = library.reached().decode()
    counted = library.counted()
    problem = ""
    if status == -1000:
        problem = "hangs"
    elif lines and lines[-1].startswith("raised "):
        problem = lines[-1]
    return acknowledged, reached, counted, problem


def _look(name: str, folder: pathlib.Path, acknowledged: int) -> str:
    from tests.torture.durability.works import WORKS

    work = next(known for known in WORKS if known.name == name)
    lines, status = _in_child(lambda tell: tell(f"found {work.check(folder, acknowledged)}"))
    if lines and lines[-1].startswith("found "):
        return lines[-1][6:]
    return f"looking at it: {lines[-1] if lines else f'ended with {status}'}"


def _plant(plant: str) -> None:
    """A planted fault, in the child that works: with `early` a commit, or a save of columns, is told before it is
    durable; `unsynced` leaves out the syncs of the changelog."""
    if plant == "unsynced":
        from replication.files import Files

        Files.sync = Files.sync_data = lambda self, fd: None  # type: ignore[method-assign]
    if plant == "early":
        from tests.torture.durability import works

        def commit(store: Store, number: int, tell: works.Tell) -> None:
            tell(number)
            original(store, number, lambda _: None)

        original, works.commit = works.commit, commit
        save = works.save

        def save_late(file: ColumnsFile, tables: list[Saved], number: int, tell: works.Tell) -> None:
            tell(number)
            save(file, tables, number, lambda _: None)

        works.save = save_late


def _child(folder: pathlib.Path, options: argparse.Namespace) -> None:
    from tests.torture.durability.works import WORKS, use_threads

    logging.disable(logging.CRITICAL)
    use_threads()
    chance = random.Random(options.seed)
    queues: list[Iterator[None]] = []
    for work in WORKS:
        if options.only not in work.name:
            continue
        counted = _made_ready(work, folder)
        print(json.dumps({"work": work.name, "operations": counted}), flush=True)
        actions, parts = (ACTIONS, PROCESSES) if options.cut is None else (("cut",), 1)
        points = [(work.name, nth, action) for nth in range(1, counted + 1) for action in actions]
        chance.shuffle(points)
        wanted = len(range(options.part, options.points, parts)) if options.points else len(points)
        queues.append(_each_met(folder, points[options.part :: parts], wanted, options))
    while queues and (options.points or time.time() < options.until):
        for queue in list(queues):
            if next(queue, 0) == 0:
                queues.remove(queue)
            if not options.points and time.time() > options.until:
                break


def _each_met(
    folder: pathlib.Path, points: list[tuple[str, int, str]], wanted: int, options: argparse.Namespace
) -> Iterator[None]:
    """Tries these points one after the other until so many were met: threads may do fewer operations than last time."""
    left = wanted
    for name, nth, action in points:
        if not left:
            return
        if options.cut is None:
            left -= _one(folder, name, nth, action, options.plant)
        else:
            left -= _cut(folder, options.cut, name, nth, options.plant)
        yield


def _made_ready(work: Work, folder: pathlib.Path) -> int:
    """Prepares a work, does it once without a failure, and gives its operations. What it has imported on its way is
    imported here too, so that no later child has to."""
    from tests.torture.durability.works import copied

    prepared, place = folder / "prepared" / work.name.replace(" ", "-"), folder / "work"
    prepared.mkdir(parents=True)

    def run(place: pathlib.Path) -> None:
        _Library().arm(str(place / "data").encode(), 0, 0, 0)
        work.run(place, _nobody)

    for step in (work.prepare, run, partial(work.check, acknowledged=0)):
        lines, status = _in_child(partial(_imported, partial(step, prepared if step == work.prepare else place)))
        if status or (lines and lines[-1].startswith("raised ")):
            raise RuntimeError(f"{work.name}, without a failure: {lines[-1] if lines else f'ended with {status}'}")
        for name in lines:
            importlib.import_module(name)
        if step == work.prepare:
            copied(prepared, place)
        elif step == run:
            counted: int = _Library().counted()
    return counted


def _nobody(number: int) -> None:
    pass


def _imported(step: Callable[[], object], tell: Callable[[str], None]) -> None:
    step()
    for name, module in list(sys.modules.items()):
        if getattr(module, "__spec__", None) is not None and name != "__main__":
            tell(name)


def _one(folder: pathlib.Path, name: str, nth: int, action: str, plant: str) -> bool:
    """Whether the operation was met."""
    from tests.torture.durability.works import copied

    copied(folder / "prepared" / name.replace(" ", "-"), folder / "work")
    acknowledged, reached, _, problem = _do(name, folder / "work", nth, action, plant)
    if not reached:
        return False
    problem = problem or _look(name, folder / "work", acknowledged)
    told = {"work": name, "nth": nth, "action": action, "met": reached, "problem": problem}
    print(json.dumps(told), flush=True)
    return True


def _cut(folder: pathlib.Path, live: pathlib.Path, name: str, nth: int, plant: str) -> bool:
    """`folder` holds the image, `disk`, of the file system that is mounted at `live`. Whether the operation was met."""
    from tests.torture.durability.works import WORKS, copied

    work = next(known for known in WORKS if known.name == name)
    copied(folder / "prepared" / name.replace(" ", "-"), live / "work")
    subprocess.run(["sync", "-f", str(live)], check=True, timeout=60)
    library = _Library()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _plant(plant)
            library.arm(str(live / "work" / "data").encode(), nth, STOP, 0)
            work.run(live / "work", lambda number: os.write(writing, b"%d " % number) and None)
        os._exit(0)
    os.close(writing)
    try:
        stopped = os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
        if not stopped:
            return False
        time.sleep(power.SETTLE)
        os.set_blocking(reading, False)
        acknowledged = 0
        with contextlib.suppress(BlockingIOError):
            acknowledged = int((os.read(reading, 1 << 16).split() or [b"0"])[-1])
        subprocess.run(["cp", "--sparse=always", str(folder / "disk"), str(folder / "copy")], check=True, timeout=60)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    finally:
        os.close(reading)
    rescued = folder / "rescued"
    shutil.rmtree(rescued, ignore_errors=True)
    with power.mounted(folder / "copy", folder / "found") as found:
        shutil.copytree(found / "work", rescued)
    problem = _look(name, rescued, acknowledged)
    told = {"work": name, "nth": nth, "action": "cut", "met": library.reached().decode(), "problem": problem}
    print(json.dumps(told), flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.durability.operations")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="of the works, those with this in their name")
    parser.add_argument("--points", type=int, default=0, help="so many a work, in place of a time")
    parser.add_argument("--plant", default="", help="a planted fault: early")
    parser.add_argument("--cut", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _child(options.child, options)
        return 0
    found = meet_all(options.seconds, options.seed, options.only, options.points, options.plant)
    for name, count in found.all_points.items():
        print(f"{name}: {count} operations, {found.points[name]} points tried")
    print(dict(found.kinds))
    print(*found.problems, sep="\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
