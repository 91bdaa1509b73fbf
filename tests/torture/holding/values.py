"""Long values of every type, in each way in which a client can send one, at sizes of a megabyte and more: such as the
type has, and texts that are none of its values."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from psycopg.pq import ExecStatus

from catalog import types
from tests.torture.holding.watching import DOUBTFUL, HELD, TRIES, Watch
from wire.core import QUERY_LIMIT

MEGABYTE = 1 << 20
SIZES = (1, 60)  # megabytes


def _repeated(head: str, unit: str, tail: str) -> Callable[[int], str]:
    return lambda size: head + unit * max((size - len(head) - len(tail)) // len(unit), 1) + tail


def _counted(head: str, unit: str, tail: str, between: str = ",") -> Callable[[int], str]:
    """Parts that differ: `unit` has %d for numbers that go up by two."""

    def make(size: int) -> str:
        holes = unit.count("%d")
        each = len(unit) + 5 * holes
        parts = [unit % tuple(range(2 * number, 2 * number + holes)) for number in range(max(size // each, 1))]
        random.Random(1).shuffle(parts)  # to be put in order
        return head + between.join(parts) + tail

    return make


# Of each type, by its name in SQL: its text at about a size in bytes.
MAKERS: dict[str, Callable[[int], str]] = {
    "int4[]": _repeated("{", "12345,", "1}"),
    "int4[][]": _repeated("{", "{1,23},", "{4,56}}"),
    "numeric[]": _repeated("{", "1.50,", "1}"),
    "text[]": _repeated("{", '"a b",cd,', "x}"),
    "bool[]": _repeated("{", "t,f,", "t}"),
    "timestamptz[]": _repeated("{", '"2020-01-31 12:00:00+00",', '"2021-01-01 00:00:00+00"}'),
    "jsonb[]": _repeated("{", '"{\\"a\\": 1}",', "1}"),
    "int4range[]": _repeated("{", '"[1,5)",', '"[2,3)"}'),
    "held_pair[]": _repeated("{", '"(1,ab)",', '"(2,c)"}'),
    "held_mood[]": _repeated("{", "sad,happy,", "sad}"),
    "held_outer": _repeated('("{', "1,", '1}",7)'),
    "int4multirange": _counted("{", "[%d,%d)", "}"),
    "nummultirange": _counted("{", "[%d.5,%d.5)", "}"),
    "tsvector": _counted("", "w%d:1,2", "", " "),
    "tsquery": _repeated("", "a & ", "'b'"),
    "varbit": _repeated("", "10", "1"),
    "json": _repeated("[", '{"a": 1, "b": "xyz"},', "1]"),
    "jsonb": _repeated("[", '{"a": 1, "b": "xyz"},', "1]"),
    "polygon": _repeated("(", "(1,2),(3.5,4),", "(5,6))"),
    "path": _repeated("[", "(1,2),(3.5,4),", "(5,6)]"),
    "hstore": _counted("", '"k%d"=>"v%d"', ""),
    "text": _repeated("", "abc def ", "."),
    "bytea": _repeated("\\x", "c0ff", "ee"),
    "numeric": _repeated("", "7", "8"),
    "jsonpath": _repeated("$", "[1]", ".a"),
    "oidvector": _repeated("", "17 ", "1"),
    "int2vector": _repeated("", "17 ", "1"),
}  # fmt: skip
BUILT_IN = tuple(name for name, known in types.by_name.items() if known.category not in "APXZ")
TYPES = tuple(dict.fromkeys((*MAKERS, *BUILT_IN)))
UNITS = ("7", "0", "a", " ", "-", "{", '"', "\\", "é", "1,", "1.", "1:", "1-", "12e3", "(1,2)", "1 day ", "\\x ", "[1,")


@dataclass(frozen=True, slots=True)
class Value:
    """One that is sent. `unit`: what its text repeats; "": it is one of the type's own."""

    type_: str
    unit: str
    way: str
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.type_} of {self.unit!r} by {self.way}, {self.size} bytes"

    def text(self) -> str:
        if not self.unit:
            return MAKERS[self.type_](self.size)
        return self.unit * (self.size // len(self.unit.encode()))


PREPARED = (
    "CREATE EXTENSION IF NOT EXISTS hstore",
    "CREATE TYPE held_pair AS (a int, b text)",
    "CREATE TYPE held_mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE held_outer AS (list int[], number int)",
)


def _quoted(type_: str) -> str:
    return f'"{type_}"' if type_ in BUILT_IN else type_  # "char" is not char


def table_of(type_: str) -> str:
    return f"held_values_{TYPES.index(type_)}"


def prepare(connection: psycopg.Connection) -> None:
    """Types and a table for each type."""
    for statement in (*PREPARED, *(f"CREATE TABLE {table_of(type_)} (x {_quoted(type_)})" for type_ in TYPES)):
        connection.execute(statement.encode())


# ---- ways ------------------------------------------------------------------------------------------------------------


def _literal(connection: psycopg.Connection, type_: str, value: str) -> None:
    doubled = value.replace("'", "''")
    connection.execute(f"INSERT INTO {table_of(type_)} VALUES ('{doubled}')".encode())


def _escaped_literal(connection: psycopg.Connection, type_: str, value: str) -> None:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    connection.execute(f"INSERT INTO {table_of(type_)} SELECT E'{doubled}'::{type_}".encode())


def _bind(connection: psycopg.Connection, type_: str, value: str) -> None:
    sent(connection, type_, value.encode(), 0)


def sent(connection: psycopg.Connection, type_: str, value: bytes, form: int) -> None:
    """As a parameter in a form: 0 text, 1 binary."""
    insert = f"INSERT INTO {table_of(type_)} VALUES ($1)".encode()
    raised(connection, connection.pgconn.exec_params(insert, [value], param_formats=[form]))


def raised(connection: psycopg.Connection, result: psycopg.pq.abc.PGresult) -> None:
    if result.status == ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(result, connection.info.encoding)


def _copy(connection: psycopg.Connection, type_: str, value: str) -> None:
    copied(connection, f"COPY {table_of(type_)} FROM STDIN", value.replace("\\", "\\\\").encode() + b"\n")


def _copy_csv(connection: psycopg.Connection, type_: str, value: str) -> None:
    doubled = value.replace('"', '""')
    copied(connection, f"COPY {table_of(type_)} FROM STDIN (FORMAT csv)", f'"{doubled}"\n'.encode())


def copied(connection: psycopg.Connection, statement: str, data: bytes) -> None:
    with connection.cursor().copy(statement.encode()) as copy:
        for start in range(0, len(data), 1 << 16):
            copy.write(data[start : start + (1 << 16)])


_LITERAL, _ESCAPED_LITERAL = "literal", "escaped literal"
WAYS: dict[str, Callable[[psycopg.Connection, str, str], None]] = {
    _LITERAL: _literal,
    _ESCAPED_LITERAL: _escaped_literal,
    "parameter": _bind,
    "copy": _copy,
    "copy csv": _copy_csv,
}


def send_beside(connection: psycopg.Connection, watch: Watch, value: Value) -> tuple[float, str | None]:
    """For how many seconds others waited while the value was sent, and how it was refused. The table is empty then."""
    made = value.text()
    for _ in range(TRIES):
        state: str | None = None
        with watch.beside() as seen:
            try:
                WAYS[value.way](connection, value.type_, made)
            except psycopg.Error as error:
                state = error.sqlstate
        connection.execute(f"TRUNCATE {table_of(value.type_)}".encode())
        if state == "XX000" or not HELD < seen.held < DOUBTFUL:
            break
    return seen.held, state


def cases(seed: int) -> Iterator[Value]:
    """In an order of the seed; without end."""
    chance = random.Random(seed)
    while True:
        size = int(chance.choice((*SIZES, chance.uniform(*SIZES))) * MEGABYTE)
        way = chance.choice(tuple(WAYS))
        if way in (_LITERAL, _ESCAPED_LITERAL):
            size = min(size, (QUERY_LIMIT >> 1) - MEGABYTE)  # a literal may double each of its characters
        if chance.random() < 0.5:
            yield Value(chance.choice(tuple(MAKERS)), "", way, size)
        else:
            yield Value(chance.choice(TYPES), chance.choice(UNITS), way, size)
