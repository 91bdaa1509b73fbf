"""Reads long values in a separate process. The values are then represented by their stored form.

    python -m catalog.types.beside check|jsonb|text|binary DEPTH MEMORY

A step of C holds the interpreter lock: the JSON scanner reads a whole text in one step, `split` makes ten million parts
of an array's text in one step, and as many objects are freed in one step. So a thread of the server that read megabytes
would block all sessions. The process reads the value from its standard input; for the kinds text and binary, a line of
JSON before the value describes the type. To its standard output the process writes READ or TIMELY and the canonical
text of jsonb or the stored form of the value, or b"-" and the parts of its SqlError as JSON. It ends with its statement
(catalog/processes.py). Reading needs several times the memory of the value; query_memory_limit limits the process.

The stored form becomes Python objects at the first access (`Parts` in catalog/types/base.py), which a write does not
need. A thread that reads a value of about 10 kB or more also keeps its stored form: making it takes a second for a
megabyte, and the thread that serves all sessions may have to write the value.
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
READ, TIMELY = b"+", b"t"  # TIMELY: the value depends on the start of its transaction
_PACKAGES = str(Path(__file__).resolve().parent.parent.parent)
_PARTS = ("message", "detail", "hint", "context")


def use() -> None:
    """Makes all threads except for the main one (catalog/patience.py) read long values in separate processes."""
    long_values.use(_Processes())


class _Processes:
    """Implements `Reader` of catalog/types/long_values.py."""

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
    """Returns the canonical text for the kind jsonb, "" for check. Raises the errors of the type."""
    told = _run(kind, text.encode("utf-8", "surrogatepass"))
    return str(memoryview(told)[1:], "utf-8", "surrogatepass")


def _run(kind: str, given: bytes) -> bytes:
    """Returns the output of the process, which begins with READ or TIMELY. Raises the errors of the type, 53200 and
    57014."""
    allowed = processes.memory_allowance()
    command = [sys.executable, "-P", "-m", __name__, kind, str(sys.getrecursionlimit()), str(allowed)]
    environment = {"PYTHONPATH": _PACKAGES, "LANG": "C.UTF-8"}
    told = processes.output(command, given, environment)
    if told[:1] in (READ, TIMELY):
        return told
    if told[:1] != b"-":  # memory has run out, or the process was ended
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
    """The main function of the process."""
    gc.disable()  # the process makes millions of objects without cycles, and ends
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
    """Truncates a part of a message that contains a value of megabytes, because every step of its way copies it."""
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
    os._exit(0)  # does not free millions of objects
