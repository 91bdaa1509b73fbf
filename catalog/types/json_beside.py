"""Long JSON is read by a process of its own.

    python -m catalog.types.json_beside check|jsonb DEPTH MEMORY

Python's scanner reads a text in one step, and keeps the interpreter meanwhile: a thread of the server that read
megabytes would hold everybody. The process gets the text on its standard input. On its standard output it says b"+" and
the canonical text of jsonb, or b"-" and, as JSON, what its SqlError is made of. It imports little and is there for a
second or less. It ends with its statement (catalog/processes.py). The memory that reading takes, several times that of
the text, is its own too: query_memory_limit is its limit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from catalog.errors import SqlError

LONG = 2 << 20  # characters, which take 0.1 s
_PACKAGES = str(Path(__file__).resolve().parent.parent.parent)
_PARTS = ("message", "detail", "hint", "context")


def goes_beside(text: str) -> bool:
    """Whether a text is read by another process: where this is a thread beside the one that serves everybody."""
    if len(text) <= LONG:
        return False
    from catalog import patience  # it knows meters of memory, and these know types

    return patience.beside_watched()


def read_beside(text: str, kind: str) -> str:
    """The canonical text for the kind jsonb, "" for check. Raises what the reading raises here."""
    from catalog import processes

    allowed = processes.allowed()
    command = [sys.executable, "-P", "-m", __name__, kind, str(sys.getrecursionlimit()), str(allowed)]
    environment = {"PYTHONPATH": _PACKAGES, "LANG": "C.UTF-8"}
    told = processes.output(command, text.encode("utf-8", "surrogatepass"), environment)
    if told[:1] == b"+":
        return str(memoryview(told)[1:], "utf-8", "surrogatepass")
    if told[:1] != b"-":  # it has found no memory, or somebody has ended it
        raise SqlError(
            "53200",
            "out of memory",
            detail="The process that reads a long JSON text has ended"
            + (f": query_memory_limit allows it {allowed >> 10} kB." if allowed else "."),
            hint="Raise query_memory_limit, or make the JSON text shorter.",
        )
    parts = json.loads(told[1:])
    raise SqlError(parts.pop("sqlstate"), **parts)


def main(kind: str, depth: str, memory: str) -> None:
    """The process."""
    from catalog.processes import limit_memory
    from catalog.types.json import canonical
    from catalog.types.json_text import check_json

    sys.setrecursionlimit(int(depth))
    limit_memory(int(memory))
    text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    try:
        if kind == "jsonb":
            answer = b"+" + canonical(text).encode("utf-8", "surrogatepass")
        else:
            check_json(text)
            answer = b"+"
    except SqlError as error:
        parts = {"sqlstate": error.sqlstate} | {part: getattr(error, part) for part in _PARTS}
        answer = b"-" + json.dumps(parts).encode()
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
