"""Generated programs in PL/pgSQL, and what they give: notices, rows, errors with their context, and a table's state.

A program is made from its seed alone. Every loop has a counter of its own that nothing else assigns to, so a program
ends; every query has an order, so it has one result.

    python -m tests.differential --plpgsql --seconds 60
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from tests.differential.compare import REFUSED, Tally
from tests.outcome import Connection, full_outcome

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(8,2) CHECK (c < 1000));
INSERT INTO t SELECT i, CASE WHEN i % 4 > 0 THEN 'row ' || i END, i * 1.25 FROM generate_series(1, 8) i;
CREATE TABLE u (k int REFERENCES t, v text NOT NULL);
CREATE FUNCTION half(x int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN IF x > 20 THEN RAISE EXCEPTION 'too large: %', x USING ERRCODE = '22003'; END IF; RETURN x / 2; END $$;
CREATE FUNCTION added(x int, y text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN INSERT INTO u VALUES (x, y); RETURN (SELECT count(*) FROM u); END $$;
CREATE FUNCTION listed(low int) RETURNS TABLE (k int, v text) LANGUAGE plpgsql AS $$
BEGIN FOR k, v IN SELECT a, b FROM t WHERE a > low ORDER BY a LOOP RETURN NEXT; END LOOP; END $$;
CREATE PROCEDURE doubled(INOUT x int, y int DEFAULT 2) LANGUAGE plpgsql AS $$ BEGIN x := x * y; END $$
"""

DECLARATIONS = """
i1 int; i2 int := 3; i3 int NOT NULL := 5; s1 text; s2 text := 'one'; n1 numeric; n2 numeric(6,2) := 7.5;
b1 bool; e1 int[]; e2 int[] := '{4,5,6}'; r1 record; r3 record; w1 t%ROWTYPE; c1 refcursor; v1 t.b%TYPE := 'v';
k1 CONSTANT int := 2; c2 CURSOR (low int) FOR SELECT a, b FROM t WHERE a >= low ORDER BY a;
"""

INTS, TEXTS, NUMBERS, ARRAYS = ("i1", "i2", "i3"), ("s1", "s2", "v1"), ("n1", "n2"), ("e1", "e2")
RECORDS = ("r1", "r3", "w1")
CONDITIONS = (
    "division_by_zero", "unique_violation", "data_exception", "others", "no_data_found", "foreign_key_violation",
    "SQLSTATE '22003'", "raise_exception", "integrity_constraint_violation", "plpgsql_error", "too_many_rows",
)  # fmt: skip


class Generator:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.loops: list[str] = []  # the labels of the loops around
        self.labels = 0
        self.budget = 14  # statements that are still made
        self.counters: list[str] = []
        self.in_handler = False
        self.visible: list[str] = []  # variables of inner blocks

    def program(self) -> str:
        """A DO statement."""
        body = self._body()
        counters = "".join(f"{name} int := 0; " for name in self.counters)
        return f"DO $$\nDECLARE {DECLARATIONS.strip()}\n{counters}\nBEGIN\n{body}\nEND $$"

    def function(self) -> tuple[str, str]:
        """A function, and a query that calls it."""
        kind = self.chance.choice(("int", "text", "SETOF int", "SETOF t"))
        self.returns = kind
        body = self._body()
        last = {
            "int": f"RETURN {self.number()};",
            "text": f"RETURN {self.text()};",
            "SETOF int": f"RETURN NEXT {self.number()};",
            "SETOF t": "RETURN QUERY SELECT * FROM t WHERE a < i2 ORDER BY a;",
        }[kind]
        counters = "".join(f"{name} int := 0; " for name in self.counters)
        volatility = self.chance.choice(("", "", "STABLE ", "STRICT "))
        made = (
            f"CREATE OR REPLACE FUNCTION f(p1 int, p2 text DEFAULT 'two') RETURNS {kind}\nLANGUAGE plpgsql {volatility}"
            "AS $$\n"
            f"DECLARE {DECLARATIONS.strip()}\n{counters}\nBEGIN\n{body}\n{last}\nEND $$"
        )
        argument = self.chance.choice(("1", "NULL", "7", "(SELECT max(a) FROM t)"))
        calls = [f"SELECT * FROM f({argument}, 'x')"]
        if kind != "SETOF t":  # its rows are records to a client of Shoal
            calls.append(f"SELECT f({argument})")
        if "SETOF" not in kind:
            calls.append("SELECT a, f(a) FROM t WHERE a < 4 ORDER BY a")
            calls.append("SELECT count(*) FROM t WHERE f(a) IS NOT NULL")
        return made, self.chance.choice(calls)

    returns = ""

    def _body(self) -> str:
        self.block(self.chance.randrange(2, 7))
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        self.lines.append("  " * (self.depth + 1) + text)

    @contextmanager
    def inside(self, end: str = "") -> Iterator[None]:
        """Indented lines, and what ends them."""
        self.depth += 1
        yield
        self.depth -= 1
        if end:
            self.line(end)

    def block(self, count: int) -> None:
        """Statements, at least one."""
        for number in range(count):
            if self.budget <= 0 and number:
                break
            self.budget -= 1
            self.statement()

    # ---- expressions ------------------------------------------------------------------------------------------------

    def number(self, depth: int = 2) -> str:
        """An expression of type int."""
        pick = self.chance.random()
        if depth == 0 or pick < 0.45:
            known = [*INTS, "k1", *self.visible, *(("p1",) if self.returns else ())]
            return self.chance.choice((*known, str(self.chance.randrange(-2, 12))))
        one, other = self.number(depth - 1), self.number(depth - 1)
        return self.chance.choice((
            f"{one} + {other}", f"({one} - {other})", f"({one} * {other})", f"{one} / {other}", f"{one} % {other}",
            f"coalesce({one}, {other})", f"length({self.text(depth - 1)})", f"abs({one})", f"half({one})",
            f"(SELECT count(*) FROM t WHERE a < {one})::int", f"(SELECT max(a) FROM t WHERE a < {other})",
            f"{self.chance.choice(ARRAYS)}[{one}]", f"array_length({self.chance.choice(ARRAYS)}, 1)",
            f"(CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {other} END)", "w1.a", "r1.a",
            f"({self.text(depth - 1)})::int", f"({one})::numeric::int", f"greatest({one}, {other})",
        ))  # fmt: skip

    def text(self, depth: int = 2) -> str:
        """An expression of type text."""
        pick = self.chance.random()
        if depth == 0 or pick < 0.45:
            known = [*TEXTS, *(("p2",) if self.returns else ())]
            return self.chance.choice((*known, "'x'", "'12'", "''", "'it''s %'"))
        one, other = self.text(depth - 1), self.text(depth - 1)
        return self.chance.choice((
            f"{one} || {other}", f"upper({one})", f"left({one}, {self.number(depth - 1)})", f"coalesce({one}, {other})",
            f"({self.number(depth - 1)})::text", f"repeat({one}, 2)", f"replace({one}, 'o', {other})", "w1.b", "r1.b",
            f"(SELECT b FROM t WHERE a = {self.number(depth - 1)})", f"concat({one}, {self.number(depth - 1)})",
            f"format('%s-%L', {one}, {other})", f"({self.decimal(depth - 1)})::text",
        ))  # fmt: skip

    def decimal(self, depth: int = 2) -> str:
        """An expression of type numeric."""
        if depth == 0 or self.chance.random() < 0.4:
            return self.chance.choice((*NUMBERS, "1.50", "0.0", "-3.25"))
        one = self.decimal(depth - 1)
        return self.chance.choice((
            f"{one} + {self.decimal(depth - 1)}", f"({one} * {self.decimal(depth - 1)})", f"round({one}, 1)", "w1.c",
            f"{one} / {self.decimal(depth - 1)}", f"(SELECT sum(c) FROM t WHERE a > {self.number(depth - 1)})",
        ))  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        """An expression of type bool."""
        if depth == 0:
            return self.chance.choice(("b1", "true", "FOUND", "i2 > 3", "s1 IS NULL"))
        one = self.number(depth - 1)
        return self.chance.choice((
            f"{one} < {self.number(depth - 1)}", f"{one} = {self.number(depth - 1)}", f"{self.text(depth - 1)} IS NULL",
            f"{self.text(depth - 1)} > {self.text(depth - 1)}", f"NOT {self.condition(depth - 1)}", "FOUND", "b1",
            f"({self.condition(depth - 1)} AND {self.condition(depth - 1)})", f"{one} IN (1, 2, i1)",
            f"({self.condition(depth - 1)} OR {self.condition(depth - 1)})", f"{one} = ANY (e2)",
            f"{self.chance.choice(RECORDS)} IS NULL",
            f"EXISTS (SELECT FROM t WHERE a = {one})", f"{self.decimal(depth - 1)} >= {self.decimal(depth - 1)}",
        ))  # fmt: skip

    def value(self) -> str:
        """An expression of any type."""
        return self.chance.choice((self.number, self.text, self.decimal, self.condition))()

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        kinds: list[tuple[int, Callable[[], None]]] = [
            (9, self.assignment), (6, self.notice), (3, self.change), (3, self.select_into), (2, self.dynamic),
            (1, self.perform), (1, self.diagnostics), (1, self.raise_error), (1, self.call), (1, self.cursor),
        ]  # fmt: skip
        if self.depth < 3:
            kinds += [(4, self.if_), (2, self.case), (4, self.loop), (4, self.inner_block)]
        if self.loops:
            kinds.append((3, self.leave))
        if self.returns:
            kinds.append((2, self.give))
        if self.in_handler:
            kinds.append((3, self.stacked))
        self.chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()

    def assignment(self) -> None:
        one = self.chance.choice(ARRAYS)
        self.line(self.chance.choice((
            f"{self.chance.choice(INTS)} := {self.number()};", f"{self.chance.choice(INTS)} = {self.number()};",
            f"{self.chance.choice(TEXTS)} := {self.text()};", f"{self.chance.choice(NUMBERS)} := {self.decimal()};",
            f"b1 := {self.condition()};", f"{self.chance.choice(INTS)} := {self.decimal()};", f"s1 := {self.number()};",
            f"i1 := {self.chance.choice(TEXTS)};", f"{one}[{self.number(0)}] := {self.number(1)};",
            f"{one} := ARRAY[{self.number(1)}, {self.number(1)}];", f"{one} := {one} || {self.number(1)};",
            f"w1.b := {self.text()};", f"w1.c := {self.decimal()};", f"r1.a := {self.number()};", "r1 := w1;",
            f"{self.chance.choice(RECORDS)} := {self.chance.choice((*RECORDS, 'NULL'))};",
            f"w1 := ROW({self.number(1)}, {self.text(1)}, {self.decimal(1)});", f"n2 := {self.number()};",
        )))  # fmt: skip

    def notice(self) -> None:
        level = self.chance.choice(("NOTICE", "NOTICE", "NOTICE", "INFO", "WARNING"))
        values = [self.chance.choice((*INTS, *TEXTS, *NUMBERS, *ARRAYS, *RECORDS, "b1", "FOUND", self.value(),
                                     f"pg_typeof({self.value()})"))
                  for _ in range(self.chance.randrange(1, 4))]  # fmt: skip
        self.line(f"RAISE {level} '{' '.join('%' for _ in values)}', {', '.join(values)};")

    def raise_error(self) -> None:
        self.line(self.chance.choice((
            f"RAISE EXCEPTION 'failed: %', {self.value()};", "RAISE division_by_zero;", f"ASSERT {self.condition()};",
            f"RAISE EXCEPTION USING ERRCODE = '22012', MESSAGE = {self.text()}, HINT = {self.text()};",
            f"ASSERT {self.condition()}, 'assert ' || {self.text()};", "RAISE SQLSTATE '22003' USING DETAIL = 'd';",
            f"RAISE NOTICE USING MESSAGE = {self.text()}, DETAIL = {self.text()};",
        )))  # fmt: skip

    def change(self) -> None:
        low = self.number(1)
        self.line(self.chance.choice((
            f"INSERT INTO t VALUES ({self.number(1)}, {self.text(1)}, {self.decimal(1)});",
            f"INSERT INTO u VALUES ({self.number(1)}, {self.text(1)});",
            f"UPDATE t SET b = {self.text(1)} WHERE a > {low};", f"DELETE FROM t WHERE a = {low};",
            f"UPDATE t SET c = c + {self.decimal(1)} WHERE a < {low} RETURNING a INTO i1;",
            f"INSERT INTO t VALUES ({low}, {self.text(1)}, 2) ON CONFLICT (a) DO UPDATE SET b = excluded.b || '!';",
            f"DELETE FROM t WHERE a = {low} RETURNING * INTO w1;", "DELETE FROM u RETURNING v INTO s1;",
        )))  # fmt: skip

    def select_into(self) -> None:
        low, strict = self.number(1), self.chance.choice(("", "", "STRICT "))
        self.line(self.chance.choice((
            f"SELECT a, b INTO {strict}i1, s1 FROM t WHERE a >= {low} ORDER BY a LIMIT 1;",
            f"SELECT * INTO {strict}w1 FROM t WHERE a = {low};", f"SELECT a, b INTO {strict}r1 FROM t WHERE a = {low};",
            f"SELECT count(*), sum(c) FROM t WHERE a > {low} INTO {strict}i2, n1;",
            f"SELECT * INTO {strict}r1 FROM t WHERE a > {low} ORDER BY a;",
            f"SELECT array_agg(a ORDER BY a) INTO {strict}e1 FROM t WHERE a < {low};",
            f"SELECT k, v INTO {strict}i2, s2 FROM listed({low}) ORDER BY k LIMIT 1;",
        )))  # fmt: skip

    def dynamic(self) -> None:
        low = self.number(1)
        self.line(self.chance.choice((
            f"EXECUTE 'SELECT b FROM t WHERE a = $1' INTO s1 USING {low};",
            f"EXECUTE format('UPDATE t SET b = %L WHERE a = $1', {self.text(1)}) USING {low};",
            f"EXECUTE 'SELECT ' || {self.number(1)} || ' + 1' INTO i1;", "EXECUTE 'SELECT wrong FROM t' INTO i1;",
            f"EXECUTE {self.text()};", f"EXECUTE 'SELECT * FROM t WHERE a = $1' INTO STRICT w1 USING {low};",
            f"EXECUTE 'INSERT INTO t VALUES ($1, $2)' USING {low}, {self.text(1)};",
        )))  # fmt: skip

    def perform(self) -> None:
        self.line(self.chance.choice((
            f"PERFORM a FROM t WHERE a > {self.number(1)};", f"PERFORM added({self.number(1)}, {self.text(1)});",
            f"PERFORM half({self.number()});", f"PERFORM {self.value()};",
        )))  # fmt: skip

    def diagnostics(self) -> None:
        self.line(self.chance.choice(("GET DIAGNOSTICS i1 = ROW_COUNT;", "GET CURRENT DIAGNOSTICS s1 := ROW_COUNT;")))

    def stacked(self) -> None:
        item = self.chance.choice((
            "RETURNED_SQLSTATE", "MESSAGE_TEXT", "PG_EXCEPTION_DETAIL", "PG_EXCEPTION_HINT", "CONSTRAINT_NAME",
            "TABLE_NAME", "PG_EXCEPTION_CONTEXT", "COLUMN_NAME",
        ))  # fmt: skip
        self.line(self.chance.choice((
            f"GET STACKED DIAGNOSTICS s1 = {item};", f"GET STACKED DIAGNOSTICS s1 = {item};", "RAISE;",
            "RAISE NOTICE '% %', SQLSTATE, SQLERRM;", "RAISE EXCEPTION 'again: %', SQLERRM;",
        )))  # fmt: skip
        self.line("RAISE NOTICE '%', s1;")

    def call(self) -> None:
        self.line(self.chance.choice((
            "CALL doubled(i1);", "CALL doubled(i3);", f"CALL doubled({self.chance.choice(INTS)}, {self.number(0)});",
            f"CALL doubled(y => {self.number(0)}, x => i1);", f"CALL doubled({self.number(0)} + 1);",
        )))  # fmt: skip

    def cursor(self) -> None:
        low = self.number(1)
        ways = (
            (f"OPEN c1 FOR SELECT a, b FROM t WHERE a > {low} ORDER BY a;", "c1"), (f"OPEN c2({low});", "c2"),
            (f"OPEN c1 SCROLL FOR EXECUTE 'SELECT a, b FROM t WHERE a > $1 ORDER BY a' USING {low};", "c1"),
        )  # fmt: skip
        opening, name = self.chance.choice(ways)
        self.line(opening)
        for _ in range(self.chance.randrange(1, 4)):
            self.line(self.chance.choice((
                f"FETCH {name} INTO i1, s1;", f"FETCH NEXT FROM {name} INTO r1;", f"MOVE {name};",
                f"FETCH LAST FROM {name} INTO i1, s1;", f"MOVE FORWARD 2 FROM {name};",
                "RAISE NOTICE '% %', i1, FOUND;",
                f"FETCH ABSOLUTE 2 FROM {name} INTO r1;",
            )))  # fmt: skip
        if self.chance.random() < 0.8:
            self.line(f"CLOSE {name};")

    def if_(self) -> None:
        self.line(f"IF {self.condition()} THEN")
        with self.inside():
            self.block(2)
        if self.chance.random() < 0.4:
            self.line(f"ELSIF {self.condition()} THEN")
            with self.inside():
                self.block(1)
        if self.chance.random() < 0.5:
            self.line("ELSE")
            with self.inside():
                self.block(2)
        self.line("END IF;")

    def case(self) -> None:
        searched = self.chance.random() < 0.5
        self.line("CASE" if searched else f"CASE {self.number()}")
        for _ in range(2):
            self.line(f"WHEN {self.condition() if searched else f'{self.number(1)}, {self.number(1)}'} THEN")
            with self.inside():
                self.block(1)
        if self.chance.random() < 0.7:
            self.line("ELSE")
            with self.inside():
                self.block(1)
        self.line("END CASE;")

    def loop(self) -> None:
        self.labels += 1
        label = f"l{self.labels}" if self.chance.random() < 0.5 else ""
        if label:
            self.line(f"<<{label}>>")
        header = self.chance.choice((self._plain_loop, self._plain_loop, self._while, self._for_number, self._for_query,
                                     self._for_query, self._foreach, self._for_cursor))  # fmt: skip
        self.loops.append(label)
        before = list(self.visible)
        header()
        self.visible = before
        self.loops.pop()
        self.line(f"END LOOP{' ' + label if label and self.chance.random() < 0.5 else ''};")

    def _counter(self) -> str:
        name = f"g{len(self.counters) + 1}"
        self.counters.append(name)
        return name

    def _plain_loop(self) -> None:
        counter = self._counter()
        self.line("LOOP")
        with self.inside():
            self.line(f"{counter} := {counter} + 1;")
            self.line(f"EXIT WHEN {counter} > {self.chance.randrange(1, 4)};")
            self.block(2)

    def _while(self) -> None:
        counter = self._counter()
        self.line(f"WHILE {counter} < 3 AND {self.condition()} LOOP")
        with self.inside():
            self.line(f"{counter} := {counter} + 1;")
            self.block(2)

    def _for_number(self) -> None:
        name = self.chance.choice(("i", "i1"))
        low = self.number(1)
        reverse, step = self.chance.choice((("", ""), ("REVERSE ", ""), ("", f" BY {self.chance.randrange(0, 3)}")))
        limits = (f"({low}) + 2", low) if reverse else (low, f"({low}) + 2")
        self.line(f"FOR {name} IN {reverse}{limits[0]}..{limits[1]}{step} LOOP")
        self.visible.append("i") if name == "i" else None
        with self.inside():
            self.block(2)

    def _for_query(self) -> None:
        low = self.number(0)  # what fails in it would fail when PostgreSQL plans it
        self.line(self.chance.choice((
            f"FOR r1 IN SELECT a, b FROM t WHERE a > {low} ORDER BY a LIMIT 3 LOOP",
            f"FOR w1 IN SELECT * FROM t WHERE a > {low} ORDER BY a LIMIT 3 LOOP",
            f"FOR i2, s2 IN SELECT k, v FROM listed({low}) ORDER BY k LIMIT 2 LOOP",
            f"FOR r1 IN EXECUTE 'SELECT a, b FROM t WHERE a < $1 ORDER BY a LIMIT 2' USING {low} LOOP",
            "FOR r1 IN UPDATE t SET c = 1 WHERE a = 2 RETURNING a, b LOOP",
        )))  # fmt: skip
        with self.inside():
            self.block(2)

    def _foreach(self) -> None:
        self.line(self.chance.choice((
            f"FOREACH i1 IN ARRAY {self.chance.choice(ARRAYS)} LOOP", "FOREACH i2 IN ARRAY ARRAY[1, NULL, 3] LOOP",
            "FOREACH e1 SLICE 1 IN ARRAY ARRAY[[1,2],[3,4]] LOOP", f"FOREACH i3 IN ARRAY ARRAY[{self.number(1)}] LOOP",
        )))  # fmt: skip
        with self.inside():
            self.block(2)

    def _for_cursor(self) -> None:
        self.line(f"FOR r2 IN c2({self.number(0)}) LOOP")
        with self.inside():
            self.line("RAISE NOTICE '%', r2.a;")
            self.block(1)

    def leave(self) -> None:
        word = self.chance.choice(("EXIT", "CONTINUE"))
        label = self.chance.choice(self.loops)
        when = f" WHEN {self.condition()}" if self.chance.random() < 0.8 else ""
        self.line(f"{word}{' ' + label if label else ''}{when};")

    def inner_block(self) -> None:
        before = list(self.visible)
        if self.chance.random() < 0.4:
            self.labels += 1
            name = f"x{self.labels}"
            self.line(f"DECLARE {name} int := {self.number(0)};")
            self.visible.append(name)
        self.line("BEGIN")
        with self.inside():
            self.block(3)
        self.visible = before
        if self.chance.random() < 0.8:
            self.line("EXCEPTION")
            was, self.in_handler = self.in_handler, True
            for _ in range(self.chance.randrange(1, 3)):
                self.line(f"WHEN {' OR '.join(self.chance.sample(CONDITIONS, self.chance.randrange(1, 3)))} THEN")
                with self.inside():
                    self.line("RAISE NOTICE '% %', SQLSTATE, SQLERRM;")
                    self.block(1)
            self.in_handler = was
        self.line("END;")

    def give(self) -> None:
        kind, rows = self.returns, "RETURN QUERY SELECT a FROM t ORDER BY a;"
        self.line({
            "int": f"RETURN {self.value()};", "text": f"RETURN {self.text()};",
            "SETOF int": self.chance.choice((f"RETURN NEXT {self.number()};", rows)),
            "SETOF t": self.chance.choice((
                "RETURN NEXT w1;", "RETURN NEXT r3;", "RETURN QUERY EXECUTE 'SELECT * FROM t WHERE a = 2';",
            )),
        }[kind])  # fmt: skip


# ---- comparison -----------------------------------------------------------------------------------------------------

STATE = "SELECT * FROM t ORDER BY a"


def statements_of(seed: int) -> list[str]:
    """The statements of one seed."""
    generator = Generator(seed)
    return [generator.program()] if seed % 2 else list(generator.function())


def _comparable(found: tuple[object, ...]) -> str:
    """Without the numbers in names that the servers make."""
    return re.sub(r"(__Case__Variable_|unnamed portal )\d+", r"\1", repr(found))


def run_program(seed: int, postgres: Connection, shoal: Connection) -> tuple[str, str]:
    """(what Shoal refuses, how it differs) for the program of a seed. The state is as before at the end."""
    statements = statements_of(seed)
    try:
        for connection in (postgres, shoal):
            connection.execute("BEGIN")
        for sql in statements:
            theirs, ours = full_outcome(postgres, sql), full_outcome(shoal, sql)
            if _comparable(ours) != _comparable(theirs):
                if ours[1] in REFUSED:
                    return str(ours[2]), ""
                return "", f"seed {seed}\n{sql}\n  PostgreSQL {theirs}\n  Shoal      {ours}"
            if len(theirs) > 3:
                return "", ""
        if (theirs := full_outcome(postgres, STATE)) != (ours := full_outcome(shoal, STATE)):
            return "", f"seed {seed}\n{statements[-1]}\n  PostgreSQL {theirs}\n  Shoal      {ours}"
        return "", ""
    finally:
        for connection in (postgres, shoal):
            connection.execute("ROLLBACK")


def run_programs(first: int, seconds: float, postgres: Connection, shoal: Connection, most: int = 1_000_000) -> Tally:
    """The programs from a seed on, for some seconds."""
    tally = Tally()
    for connection in (postgres, shoal):
        connection.prepare_threshold = None  # the function is another one each time
        connection.execute("DROP SCHEMA IF EXISTS programs CASCADE; CREATE SCHEMA programs; SET search_path = programs")
        connection.execute(SETUP.encode())
    ends = monotonic() + seconds
    for seed in range(first, first + most):
        if monotonic() > ends:
            break
        refused, failure = run_program(seed, postgres, shoal)
        tally.statements += 1
        if refused:
            tally.refused[refused] += 1
        elif failure:
            tally.failures.append(failure)
        else:
            tally.compared += 1
    return tally
