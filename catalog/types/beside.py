"""Reads long values in a separate process. The values are then represented by their stored form.

    python -m catalog.types.beside check|jsonb|text|binary DEPTH MEMORY

Steps of C keep the interpreter: the scanner of JSON reads a text in one, `split` makes ten million parts of an array's
text in one, and as many objects go in one. A thread of the server that read megabytes would hold everybody. The process
gets the value on its standard input; the kinds text and binary get a line of JSON before it that says of which type it
is. On its standard output it says READ or TIMELY and the canonical text of jsonb or what is stored of the value, or
b"-" and, as JSON, what its SqlError is made of. It ends with its statement (catalog/processes.py). The memory that
reading takes, several times that of the value, is its own too: query_memory_limit is its limit.

What comes back becomes objects where somebody looks at it (`Parts` in catalog/types/base.py): who stores the value need
not. A value of some 10 kB or more that a thread reads itself brings along what is stored of it for the same reason: to
make that takes a second for a megabyte, and whoever stores it may be the thread that serves everybody.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from catalog import patience, processes, type_descriptions
from catalog.errors import SqlError
from catalog.types import long_values, lookup
from catalog.types.base import FormatSettings, SqlType
from catalog.types.datetime import now_reading, reading_constants
from catalog.types.json import canonical
from catalog.types.json_text import check_json

SHOWN = 1000  # characters of a long value that errors show
READ, TIMELY = b"+", b"t"  # TIMELY: the value means the time at which its transaction began
_PACKAGES = str(Path(__file__).resolve().parent.parent.parent)
_PARTS = ("message", "detail", "hint", "context")


def use() -> None:
    """From now on threads beside the one that serves everybody (catalog/patience.py) leave long values to processes."""
    long_values.use(_Processes())


class _Processes:
    """See catalog/types/long_values.py."""

    def holds_others(self) -> bool:
        return patience.beside_watched()

    def value(self, sql_type: SqlType, kind: str, data: bytes, settings: FormatSettings | None, typmod: int) -> bytes:
        return _read_value(sql_type, kind, data, settings, typmod)

    def json(self, text: str, kind: str) -> str:
        return read_beside(text, kind)


def _read_value(sql_type: SqlType, kind: str, data: bytes, settings: FormatSettings | None, typmod: int) -> bytes:
    reading = now_reading()
    described = {
        "oid": sql_type.oid,
        "typmod": typmod,
        "settings": None if settings is None else asdict(settings),
        "types": type_descriptions.describe([sql_type.oid]),
        "reading": None if reading is None else [reading.transaction_time],
    }
    told = _run(kind, json.dumps(described).encode() + b"\n" + data)
    if told[:1] == TIMELY and reading is not None:
        reading.timely = True
    return bytes(memoryview(told)[1:])


def read_beside(text: str, kind: str) -> str:
    """The canonical text for the kind jsonb, "" for check. Raises what the reading raises here."""
    told = _run(kind, text.encode("utf-8", "surrogatepass"))
    return str(memoryview(told)[1:], "utf-8", "surrogatepass")


def _run(kind: str, given: bytes) -> bytes:
    """What the process says, READ or TIMELY first. Raises what the reading raises."""
    allowed = processes.memory_allowance()
    command = [sys.executable, "-P", "-m", __name__, kind, str(sys.getrecursionlimit()), str(allowed)]
    environment = {"PYTHONPATH": _PACKAGES, "LANG": "C.UTF-8"}
    told = processes.output(command, given, environment)
    if told[:1] in (READ, TIMELY):
        return told
    if told[:1] != b"-":  # it has found no memory, or somebody has ended it
        raise SqlError(
            "53200",
            "out of memory",
            detail="The process that reads a long value has ended"
            + (f": query_memory_limit allows it {allowed >> 10} kB." if allowed else "."),
            hint="Raise query_memory_limit, or make the value shorter.",
        )
    parts = json.loads(told[1:])
    raise SqlError(parts.pop("sqlstate"), **parts)


# ---- in the process -------------------------------------------------------------------------------------------------


def main(kind: str, depth: str, memory: str) -> None:
    """The process."""
    gc.disable()  # it makes millions of objects, none of which refers to itself, and ends
    sys.setrecursionlimit(int(depth))
    processes.limit_memory(int(memory))
    try:
        answer = _answer(kind)
    except SqlError as error:
        parts = {"sqlstate": error.sqlstate} | {part: _cut(getattr(error, part)) for part in _PARTS}
        answer = b"-" + json.dumps(parts).encode()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def _cut(part: str | None) -> str | None:
    """A part of a message, the first of it where a value of megabytes is in it: each who handles it makes a copy."""
    return part if part is None or len(part) <= SHOWN else part[:SHOWN] + "..."


def _answer(kind: str) -> bytes:
    if kind in ("check", "jsonb"):
        text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
        if kind == "jsonb":
            return READ + canonical(text).encode("utf-8", "surrogatepass")
        check_json(text)
        return READ
    described = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    type_descriptions.learn(described["types"])
    sql_type, typmod = lookup(described["oid"]), described["typmod"]
    with reading_constants(*described["reading"]) if described["reading"] else nullcontext() as reading:
        if kind == "binary":
            value = sql_type.receive_function(typmod)(data)
        else:
            value = sql_type.input_function(FormatSettings(**described["settings"]), typmod)(data.decode())
    return (TIMELY if reading is not None and reading.timely else READ) + sql_type.storage.save(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # without taking millions of objects apart
