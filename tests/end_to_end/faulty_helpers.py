"""A server whose helper processes fail where a test wants them to (tests/faults.py).

python -m tests.end_to_end.faulty_helpers WANTED (what `shoal` is given)
python -m tests.end_to_end.faulty_helpers WANTED --helper MODULE (what that is given)
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.engine.columnar.faulty_worker import faulty_command
from tests.faults import faulty, meet

MODULE = "tests.end_to_end.faulty_helpers"
READER, WRITER = "catalog.types.beside", "engine.storage.lmdb_writer"
STEPS = {
    READER: ("reader-starts", "reader-reads", "reader-answers"),
    WRITER: ("writer-starts", "writer-puts", "writer-commits", "writer-answers"),
}
STILL_SECONDS = 2.0


def serve(wanted: Path) -> None:
    """`shoal` with such helpers; those that do nothing are not waited for so long."""
    from catalog import stillness
    from shoal.cli import main

    stillness.STILL_SECONDS = STILL_SECONDS
    start = subprocess.Popen

    class Faulty(start):  # type: ignore[misc,valid-type]
        def __init__(self, command: Any, **more: Any) -> None:
            super().__init__(_faulty(command, wanted), **more)

    subprocess.Popen = Faulty  # type: ignore[misc]
    sys.exit(main())


def _faulty(command: list[str], wanted: Path) -> list[str]:
    for module in STEPS:
        if module in command:
            place = command.index(module)
            return [*command[:place], MODULE, str(wanted), "--helper", *command[place:]]
    return faulty_command(command, wanted)


def help_faultily(module: str, wanted: Path) -> None:
    starts, *_, answers = STEPS[module]
    meet(starts, wanted)
    if module == READER:
        from catalog.types import beside

        beside._answer = faulty("reader-reads", beside._answer, wanted)
        answer = beside._answer

        def answered(kind: str) -> bytes:
            found = answer(kind)
            half = len(found) // 2
            sys.stdout.buffer.write(found[:half])
            sys.stdout.buffer.flush()
            meet(answers, wanted)
            return found[half:]

        beside._answer = answered
        beside.main(*sys.argv[1:])
        sys.stdout.flush()
    else:
        from engine.storage import lmdb_writer

        for step, name in (("writer-puts", "put"), ("writer-commits", "finish")):
            setattr(lmdb_writer.LayerWriter, name, faulty(step, getattr(lmdb_writer.LayerWriter, name), wanted))
        put = lmdb_writer._put

        def put_and_meet(*arguments: Any) -> None:
            put(*arguments)
            meet(answers, wanted)

        lmdb_writer._put = put_and_meet
        sys.exit(lmdb_writer.main(sys.argv[1:]))


if __name__ == "__main__":
    _wanted = Path(sys.argv.pop(1))
    if sys.argv[1] == "--helper":
        _module = sys.argv[2]
        del sys.argv[1:3]
        help_faultily(_module, _wanted)
    else:
        sys.argv[0] = "shoal"
        serve(_wanted)
