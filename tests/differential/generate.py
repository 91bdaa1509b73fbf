"""Scenarios: tables with rows, and statements over them, from a seed.

Expressions come from typed templates: `{int4}` in one asks for an expression of that type. What PostgreSQL leaves open
is avoided, so that answers can be compared: windows and LIMIT order by everything, aggregates that depend on the order
of their rows say it, and division has no zero below it unless the statement is one that computes every value anyway.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

VALUES = {
    "int2": ["0", "1", "-1", "7", "32767", "-32768"],
    "int4": ["0", "1", "2", "-3", "10", "99", "2147483647", "-2147483648"],
    "int8": ["0", "1", "-5", "1000000007", "9223372036854775807", "-9223372036854775808"],
    "numeric(10,2)": ["0", "1.50", "-2.25", "99999999.99", "0.01", "3"],
    "numeric": ["0", "1.10", "1.1", "-123456789012345678901234567890.5", "0.000001", "'NaN'", "100"],
    "float8": ["0", "1.5", "-2.25", "1e15", "0.1", "'NaN'", "'Infinity'"],
    "text": ["''", "'a'", "'B'", "'abc'", "'abd'", "'a%'", "'Zoë'", "' x '", "'10'"],
    "varchar(8)": ["''", "'a'", "'abc'", "'abcdefgh'", "'É'"],
    "char(4)": ["''", "'a'", "'ab  '", "'abcd'"],
    "bool": ["true", "false"],
    "date": ["'2024-02-29'", "'1999-12-31'", "'2000-01-01'", "'0044-03-15 BC'", "'2024-03-01'"],
    "timestamp": ["'2024-02-29 12:34:56.789'", "'1970-01-01'", "'2000-01-01 00:00:00'", "'1950-06-15 23:59:59.999999'"],
    "timestamptz": ["'2024-03-31 01:30:00+00'", "'1970-01-01 00:00+00'", "'2001-09-09 01:46:40+02'"],
    "interval": ["'1 day'", "'1 mon'", "'-3 days 04:05:06'", "'33 days'", "'1 year 2 mons'", "'23:30:00'", "'0'"],
    "int4[]": ["'{}'", "'{1,2,3}'", "'{3,NULL}'", "'{1}'", "'{2147483647}'"],
    "text[]": ["'{}'", "'{a,b}'", "'{NULL,\"\"}'", "'{abc}'"],
}

# What computes a value of a type, parted by ";". Templates after "!" may raise: only statements that compute every
# value have them.
TEMPLATES = {
    "int4": """({int4}) % 1000 + ({int4}) % 1000;abs({int4} % 1000);length({text});({int4} / 7)
        ;coalesce({int4}, {int4});nullif({int4}, {int4});CASE WHEN {bool} THEN {int4} ELSE {int4} END
        ;greatest({int4}, {int4});cardinality({int4[]});least({int4}, {int4}, {int4});{int2}::int4
        ;position('b' in {text});extract(year from {date})::int4;CASE {int4} WHEN 1 THEN {int4} WHEN 2 THEN 5 END
        ;array_length({int4[]}, 1);({int4[]})[1];({date} - {date});octet_length({text});ascii({text});sign({int4})::int4
        ;{bool}::int4;({int4} & 255);({int4} # 5);(~{int4})!({int4} + {int4});({int4} * {int4});({int4} / {int4})
        ;({int4} % {int4});-{int4};abs({int4});{int8}::int4;{float8}::int4;{numeric}::int4;({text})::int4""",
    "int2": "({int2} / 3::int2);coalesce({int2}, 3::int2);least({int2}, {int2})!({int2} + {int2});({int2} * {int2})",
    "int8": """{int4}::int8;({int8} / 3);greatest({int8}, {int8});({int8} >> 3)
        ;({int4}::int8 * {int4});coalesce({int8}, 0);({int8} % 1000 + {int4})!({int8} + {int8});({int8} * {int8})
        ;({int8} / {int4});{numeric}::int8;abs({int8})""",
    "numeric(10,2)": "({numeric(10,2)} / 2)::numeric(10,2);coalesce({numeric(10,2)}, 1.25)::numeric(10,2)",
    "numeric": """{numeric(10,2)};({numeric} + {numeric});({numeric(10,2)} * {numeric(10,2)})
        ;round({numeric}, 2);({numeric(10,2)} - {int4});trunc({numeric}, 1);({numeric(10,2)} / 3);{int8}::numeric
        ;abs({numeric});sign({numeric});coalesce({numeric}, {numeric});CASE WHEN {bool} THEN {numeric} ELSE {int4} END
        ;floor({numeric});ceil({numeric});({numeric} % 7);extract(epoch from {timestamp})
        ;greatest({numeric}, {numeric(10,2)})!({numeric} / {numeric});sqrt({numeric});({numeric} % {numeric})
        ;power({numeric(10,2)}, 2);mod({numeric}, {numeric})""",
    "float8": """({float8} + {float8});({float8} - 1);{int4}::float8;{numeric(10,2)}::float8
        ;abs({float8});floor({float8});coalesce({float8}, 2.5);sign({float8});round({float8})
        ;CASE WHEN {bool} THEN {float8} END!({float8} / {float8});sqrt({float8});ln({float8});({float8} * {float8})""",
    "text": """lower({text});upper({text});({text} || {text});substr({text}, 2)
        ;substring({text}, 1, 2);coalesce({text}, 'none');trim({text});replace({text}, 'a', 'xy');left({text}, 2)
        ;right({text}, 2);lpad({text}, 5, '*');reverse({text});{int4}::text;{numeric}::text;{date}::text;{bool}::text
        ;CASE WHEN {bool} THEN {text} ELSE 'no' END;concat({text}, {int4});concat_ws('-', {text}, {text})
        ;repeat({text}, 2);initcap({text});{timestamp}::text;{interval}::text;{char(4)}::text;{varchar(8)}
        ;split_part({text}, 'b', 1);{int4[]}::text;array_to_string({text[]}, ',');md5({text});{float8}::text
        ;greatest({text}, {text});translate({text}, 'ab', 'x');strpos({text}, 'c')::text;nullif({text}, 'a')
        ;quote_literal({text});btrim({text}, 'ax');({text[]})[2];format('%s/%s', {text}, {int4})
        ;to_char({date}, 'YYYY-MM-DD')""",
    "varchar(8)": "{text}::varchar(8);coalesce({varchar(8)}, 'v')::varchar(8)",
    "char(4)": "{text}::char(4);coalesce({char(4)}, 'c')::char(4)",
    "bool": """({int4} = {int4});({int4} < {int4});({int8} >= {int4});({text} = {text})
        ;({text} < {text});({numeric} > {numeric});({numeric(10,2)} <= {numeric});({bool} AND {bool});({bool} OR {bool})
        ;(NOT {bool});({int4} IS NULL);({text} IS NOT NULL);({int4} IN (1, 2, {int4}));({text} LIKE 'a%')
        ;({text} ILIKE '%B%');({int4} BETWEEN {int4} AND {int4});({int4} IS DISTINCT FROM {int4});({date} < {date})
        ;({timestamp} >= {timestamp});({interval} = {interval});({float8} < {float8});({float8} = {float8})
        ;({char(4)} = {char(4)});({int4[]} = {int4[]});({int4[]} @> {int4[]});({int4} = ANY({int4[]}::int4[]))
        ;({int4} <> ALL({int4[]}::int4[]));({bool} IS TRUE);({bool} IS NOT FALSE);({text} ~ '^[a-c]')
        ;({text} NOT IN ('a', {text}));(({int4}, {text}) < ({int4}, {text}));({date} = {timestamp});({bool} = {bool})
        ;({int4} <> {int4});coalesce({bool}, false);({text[]} && {text[]});({varchar(8)} = {char(4)});({int2} < {int8})
        ;({numeric} = {int8});({timestamptz} < {timestamptz});({int4} IS NOT DISTINCT FROM {int4})
        ;starts_with({text}, 'a');({text} SIMILAR TO '(a|b)%');({interval} > {interval});({int4[]} < {int4[]})""",
    "date": """({date} + 1);({date} - {int4} % 1000);{timestamp}::date
        ;coalesce({date}, '2020-02-02');greatest({date}, {date});make_date(2000 + {int4} % 10, 2, 28)""",
    "timestamp": """({timestamp} + {interval});({date} + {interval});{date}::timestamp
        ;date_trunc('month', {timestamp});({timestamp} - {interval});coalesce({timestamp}, '2000-02-29')
        ;({timestamptz} AT TIME ZONE 'Europe/Berlin')""",
    "timestamptz": """({timestamptz} + {interval});({timestamp} AT TIME ZONE 'America/New_York')
        ;date_trunc('day', {timestamptz});{timestamp}::timestamptz""",
    "interval": """({interval} + {interval});({timestamp} - {timestamp});({interval} * 2);(-{interval})
        ;justify_days({interval});age({timestamp}, {timestamp});make_interval(days => {int4} % 100);({interval} / 3)""",
    "int4[]": "({int4[]} || {int4});array_append({int4[]}, {int4});ARRAY[{int4}, {int4}];array_remove({int4[]}, 1)"
    ";coalesce({int4[]}, '{}');({int4[]})[1:2]",
    "text[]": "ARRAY[{text}, 'k'];({text[]} || {text[]});string_to_array({text}, 'b')",
}  # fmt: skip
# What is true whatever {one} gives, 0 or 1, as long as it is evaluated once.
ONE = "floor(random() * 2)::int4"
IDENTITIES = """({one} IN (0, 1));({one} = ANY (ARRAY[0, 1]));({one} IN (SELECT 0 UNION SELECT 1))
        ;(nullif({one}, 0) IS DISTINCT FROM 0);(coalesce(nullif({one}, 0), 1) = 1);(EXISTS (SELECT random()))
        ;(CASE {one} WHEN 0 THEN true WHEN 1 THEN true ELSE false END);(greatest({one}, 0)::numeric IN (0, 1.0))
        ;({one}::numeric = ANY (ARRAY[0, 1.0]));({one}::text IN ('0', '1'));({one}::text::char(3) IN ('0', '1'))
        ;(nullif({one}::numeric, 0) IS DISTINCT FROM 0.0);(ARRAY[{one}] <@ ARRAY[0, 1]);({one}::text ~ '^[01]$')
        ;({one}::numeric IN (SELECT 0.0 UNION SELECT 1));((SELECT random()) < 1)"""
# Counts that do not depend on what is drawn.
DRAWN = """count(DISTINCT n) = count(*), coalesce(max(n) - min(n) + 1, 0) = count(*) FROM (SELECT nextval('drawn') n
        FROM {table} WHERE {bool}) q;count(*), max(r) FROM (SELECT row_number() OVER (ORDER BY random()) r FROM {table}
        WHERE {bool}) q;count(DISTINCT (SELECT random())) FROM {table} WHERE {bool}
        ;count(DISTINCT n) FROM (SELECT (SELECT nextval('drawn')) n FROM {table} WHERE {bool}) q
        ;count(r), count(DISTINCT r) FROM (SELECT {bool}, random()::numeric r FROM {table} ORDER BY 2, 1) q
        ;bool_and(r >= p) FROM (SELECT r, lag(r) OVER () p FROM (SELECT random()::numeric r
        FROM {table} ORDER BY 1) q) s
        ;sum(c) FROM (SELECT floor(random() * 3)::numeric g, count(*) c FROM {table} WHERE {bool} GROUP BY 1) q
        ;count(*) FROM {table} WHERE {int4} IN (SELECT {int4} FROM {table} WHERE random() < 2)"""
AGGREGATES = """count(*);count({int4});count(DISTINCT {text});sum({int4});sum({int8} / 1000)
        ;avg({int4});avg({numeric(10,2)});sum({numeric(10,2)});min({int4});max({text});min({date});max({numeric})
        ;sum({numeric});bool_and({bool});bool_or({bool});sum({float8});min({float8});avg({float8});max({timestamp})
        ;min({interval});sum({interval});count(DISTINCT {numeric});sum(DISTINCT {int4});array_agg({int4} ORDER BY {key})
        ;string_agg({text}, ',' ORDER BY {key});min({char(4)});count({text}) FILTER (WHERE {bool})
        ;sum({int4}) FILTER (WHERE {bool});stddev({int4});var_pop({numeric(10,2)})
        ;percentile_disc(0.5) WITHIN GROUP (ORDER BY {int4});max({int8});bit_or({int4});every({bool});sum({int2})
        ;array_agg(DISTINCT {text});percentile_cont(0.25) WITHIN GROUP (ORDER BY {float8});max({int4[]})"""
WINDOWS = """row_number();rank();dense_rank();sum({int4});count(*);lag({text});lead({int4}, 2, 0)
        ;first_value({text});avg({int4});last_value({int4});nth_value({text}, 2);min({numeric(10,2)});max({date})
        ;ntile(3);cume_dist();percent_rank();sum({numeric});array_agg({int4});string_agg({text}, '')
        ;count({text}) FILTER (WHERE {bool});max({interval});bool_or({bool})"""
FRAMES = """;;ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
        ;ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING;ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING
        ;GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING;ROWS 2 PRECEDING
        ;ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW"""


def _choices(text: str) -> list[str]:
    return [" ".join(item.split()) for item in text.split(";")]


_SAFE = {kind: _choices(text.split("!")[0]) for kind, text in TEMPLATES.items()}
_RAISING = {kind: _choices(text.split("!")[1]) for kind, text in TEMPLATES.items() if "!" in text}
_IDENTITIES, _DRAWN = _choices(IDENTITIES.replace("{one}", ONE)), _choices(DRAWN)
_AGGREGATES, _WINDOWS, _FRAMES = _choices(AGGREGATES), _choices(WINDOWS), _choices(FRAMES)
_HOLE = re.compile(r"\{([a-z0-9]+(?:\([0-9,]+\))?(?:\[\])?)\}")
_OUTPUT = (
    "int4",
    "int8",
    "numeric",
    "numeric(10,2)",
    "text",
    "bool",
    "date",
    "timestamp",
    "interval",
    "float8",
    "int4[]",
)
_GROUPABLE = ("int4", "text", "bool", "date", "numeric(10,2)", "char(4)", "numeric", "int4[]", "timestamp")


@dataclass(frozen=True, slots=True)
class Statement:
    """`ordered`: the order of the rows counts. `exact`: every value is computed, so an error on one side must be one on
    the other; elsewhere PostgreSQL may or may not meet a value that raises."""

    sql: str
    ordered: bool = False
    exact: bool = False
    changes: bool = False


@dataclass(slots=True)
class Column:
    name: str
    kind: str


@dataclass(slots=True)
class Table:
    name: str
    columns: list[Column]


class Scenario:
    """`setup` makes the tables, `statements` yields what is compared. The same seed gives the same text."""

    def __init__(self, seed: int, statements: int = 25) -> None:
        self.random = random.Random(seed)
        self.count = statements
        self.tables = [self._table(f"t{n}") for n in range(1, 4)]
        self.raising = False
        self.volatile = seed % 3 == 0  # expressions are made volatile, without another value
        self.key = "1"

    # ---- tables ----

    def _table(self, name: str) -> Table:
        kinds = list(VALUES)
        chosen = self.random.sample(kinds, self.random.randint(4, 8))
        if "int4" not in chosen:
            chosen.append("int4")
        return Table(name, [Column("id", "int4"), *(Column(f"{name}c{n}", kind) for n, kind in enumerate(chosen, 1))])

    def setup(self) -> list[str]:
        made = ["CREATE SEQUENCE drawn"]
        for table in self.tables:
            # Unique in any case: windows and LIMITs are ordered by it in the end.
            unique = " PRIMARY KEY" if self.random.random() < 0.8 else " NOT NULL UNIQUE"
            columns = ", ".join(f"{c.name} {c.kind}{unique if c.name == 'id' else ''}" for c in table.columns)
            made.append(f"CREATE TABLE {table.name} ({columns})")
            if self.random.random() < 0.5:
                column = self.random.choice(table.columns[1:])
                made.append(f"CREATE INDEX ON {table.name} ({column.name})")
            rows = self.random.choice([0, 1, 5, 20, 40])
            if rows:
                made.append(f"INSERT INTO {table.name} VALUES {', '.join(self._row(table, n) for n in range(rows))}")
        return made

    def _row(self, table: Table, number: int) -> str:
        return f"({', '.join([str(number), *(self._value(c.kind) for c in table.columns[1:])])})"

    def _value(self, kind: str) -> str:
        if self.random.random() < 0.2:
            return "NULL"
        if kind == "int4" and self.random.random() < 0.6:
            return str(self.random.randint(0, 20))
        return self.random.choice(VALUES[kind])

    # ---- expressions ----

    def _literal(self, kind: str) -> str:
        value = self.random.choice(VALUES[kind]) if self.random.random() < 0.95 else "NULL"
        return f"({value})::{kind}" if value.startswith(("-", "(")) else f"{value}::{kind}"

    def expression(self, kind: str, columns: list[Column], depth: int) -> str:
        """An expression of the type over these columns, perhaps volatile, perhaps in a sub-query of its own."""
        if not self.volatile or self.random.random() > 0.15:
            return self._plain_expression(kind, columns, depth)
        if kind == "bool" and self.random.random() < 0.5:
            return self.random.choice(_IDENTITIES)
        made = self._plain_expression(kind, columns, depth)
        return f"(SELECT {made})" if self.random.random() < 0.3 else f"(CASE WHEN random() < 2 THEN {made} END)"

    def _plain_expression(self, kind: str, columns: list[Column], depth: int) -> str:
        own = [column.name for column in columns if column.kind == kind]
        pick = self.random.random()
        if depth <= 0 or pick < 0.3:
            return self.random.choice(own) if (own and pick < 0.25) or (own and self.random.random() < 0.8) else (
                self._literal(kind)
            )  # fmt: skip
        templates = _SAFE[kind]
        if self.raising and kind in _RAISING and self.random.random() < 0.3:
            templates = _RAISING[kind]
        return self.filled(self.random.choice(templates), columns, depth - 1)

    def filled(self, template: str, columns: list[Column], depth: int) -> str:
        """A template with expressions in its holes; `{key}` is what orders rows."""
        template = template.replace("{key}", self.key)
        return _HOLE.sub(lambda hole: self.expression(hole[1], columns, depth), template)

    def condition(self, columns: list[Column]) -> str:
        """A WHERE condition: plain, or with a sub-query."""
        pick = self.random.random()
        if pick < 0.3:
            integers = [c.name for c in columns if c.kind == "int4"] or ["1"]
            table = self.random.choice(self.tables)
            inner = [Column(f"s.{c.name}", c.kind) for c in table.columns]
            subject = self.random.choice(integers)
            link = f"s.id {self.random.choice(['=', '<', '>='])} {subject}"
            return self.random.choice([
                f"EXISTS (SELECT 1 FROM {table.name} s WHERE {link})",
                f"NOT EXISTS (SELECT 1 FROM {table.name} s WHERE {link} AND {self.expression('bool', inner, 1)})",
                f"{subject} IN (SELECT {self.expression('int4', inner, 1)} FROM {table.name} s)",
                f"{subject} NOT IN (SELECT id FROM {table.name} s WHERE {self.expression('bool', inner, 1)})",
                f"{subject} <= (SELECT max(id) FROM {table.name} s WHERE {self.expression('bool', inner, 1)})",
                f"{subject} > ANY (SELECT id FROM {table.name} s)",
                f"{subject} < ALL (SELECT id FROM {table.name} s WHERE {link})",
            ])  # fmt: skip
        if pick < 0.45:
            return f"{self.random.choice([c.name for c in columns if c.kind == 'int4'])} = {self.random.randint(0, 20)}"
        return self.expression("bool", columns, 2)

    # ---- queries ----

    def source(self) -> tuple[str, list[Column], str]:
        """A FROM clause, its columns, and what orders its rows totally."""
        count = self.random.choice([1, 1, 1, 2, 2, 3])
        parts, keys = "", []
        columns: list[Column] = []
        for number in range(count):
            alias = "abc"[number]
            table = self.random.choice(self.tables)
            own = [Column(f"{alias}.{c.name}", c.kind) for c in table.columns]
            item = f"{table.name} {alias}"
            if self.random.random() < 0.15:
                item = f"(SELECT * FROM {table.name} WHERE {self.expression('bool', table.columns, 1)}) {alias}"
            if not number:
                parts = item
            else:
                parts = self._joined(parts, item, columns, own)
            columns += own
            keys.append(f"{alias}.id")
        return parts, columns, ", ".join(keys)

    def _joined(self, left: str, right: str, columns: list[Column], own: list[Column]) -> str:
        kind = self.random.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        if kind == "CROSS JOIN":
            return f"{left} CROSS JOIN {right}"
        first = self.random.choice([c for c in columns if c.kind == "int4"])
        second = self.random.choice([c for c in own if c.kind == "int4"])
        link = f"{first.name} = {second.name}"
        if kind != "FULL JOIN" and self.random.random() < 0.4:
            link += f" AND {self.expression('bool', [*columns, *own], 1)}"
        return f"{left} {kind} {right} ON {link}"

    def _outputs(self, columns: list[Column], count: int, depth: int = 2) -> list[str]:
        return [self.expression(self.random.choice(_OUTPUT), columns, depth) for _ in range(count)]

    def _tail(self, width: int) -> tuple[str, bool]:
        """ORDER BY of every output column, perhaps with LIMIT; and whether it is there."""
        if self.random.random() < 0.4:
            return "", False
        places = list(range(1, width + 1))
        self.random.shuffle(places)
        order = [
            f"{n}{self.random.choice(['', '', ' DESC'])}{self.random.choice(['', '', ' NULLS FIRST', ' NULLS LAST'])}"
            for n in places
        ]
        text = f" ORDER BY {', '.join(order)}"
        if self.random.random() < 0.5:
            text += f" LIMIT {self.random.randint(0, 8)}"
            if self.random.random() < 0.4:
                text += f" OFFSET {self.random.randint(0, 3)}"
        return text, True

    def plain(self) -> Statement:
        """SELECT ... FROM ... WHERE ... ORDER BY ... LIMIT."""
        source, columns, self.key = self.source()
        outputs = self._outputs(columns, self.random.randint(1, 4))
        where = f" WHERE {self.condition(columns)}" if self.random.random() < 0.8 else ""
        distinct = "DISTINCT " if self.random.random() < 0.2 else ""
        tail, ordered = self._tail(len(outputs))
        return Statement(f"SELECT {distinct}{', '.join(outputs)} FROM {source}{where}{tail}", ordered)

    def drawn(self) -> Statement:
        """What comes of volatile values, counted."""
        table = self.random.choice(self.tables)
        template = self.random.choice(_DRAWN).replace("{table}", table.name)
        return Statement(f"SELECT {self.filled(template, table.columns, 1)}")

    def computed(self) -> Statement:
        """Every value of a table computed, errors and all."""
        table = self.random.choice(self.tables)
        self.raising = True
        output = self._outputs(table.columns, 1, 3)[0]
        self.raising = False
        return Statement(f"SELECT id, {output} FROM {table.name}", exact=True)

    def grouped(self) -> Statement:
        """GROUP BY with aggregates, HAVING, grouping sets."""
        source, columns, self.key = self.source()
        keys = [self.expression(self.random.choice(_GROUPABLE), columns, 1) for _ in range(self.random.randint(0, 2))]
        keys = [key for key in keys if any(c.name in key for c in columns)]
        found = [self.filled(self.random.choice(_AGGREGATES), columns, 1) for _ in range(self.random.randint(1, 3))]
        where = f" WHERE {self.condition(columns)}" if self.random.random() < 0.5 else ""
        group = ""
        if keys:
            sets = self.random.random()
            listed = ", ".join(keys)
            distinct = len(set(keys)) == len(keys)
            group = f" GROUP BY {f'ROLLUP ({listed})' if sets < 0.1 and distinct else listed}"
        having = f" HAVING {self.filled('count(*) > 1', columns, 0)}" if self.random.random() < 0.2 else ""
        tail, ordered = self._tail(len(keys) + len(found))
        return Statement(f"SELECT {', '.join([*keys, *found])} FROM {source}{where}{group}{having}{tail}", ordered)

    def windowed(self) -> Statement:
        """Window functions over a total order."""
        source, columns, self.key = self.source()
        calls = []
        for _ in range(self.random.randint(1, 2)):
            partition = ""
            if self.random.random() < 0.6:
                partition = f"PARTITION BY {self.expression(self.random.choice(_GROUPABLE), columns, 1)} "
            first = self.expression(self.random.choice(("int4", "text", "date", "numeric(10,2)")), columns, 1)
            order = f"ORDER BY ({first}){self.random.choice(['', ' DESC', ' NULLS FIRST'])}, {self.key}"
            call = self.filled(self.random.choice(_WINDOWS), columns, 1)
            calls.append(f"{call} OVER ({partition}{order} {self.random.choice(_FRAMES)})")
        outputs = [*self.key.split(", "), *calls]
        tail, ordered = self._tail(len(outputs))
        return Statement(f"SELECT {', '.join(outputs)} FROM {source}{tail}", ordered)

    def combined(self) -> Statement:
        """Set operations."""
        kinds = [self.random.choice(_GROUPABLE) for _ in range(self.random.randint(1, 2))]
        arms = []
        for _ in range(self.random.choice([2, 2, 3])):
            source, columns, self.key = self.source()
            outputs = ", ".join(self.expression(kind, columns, 1) for kind in kinds)
            where = f" WHERE {self.condition(columns)}" if self.random.random() < 0.4 else ""
            arms.append(f"SELECT {outputs} FROM {source}{where}")
        text = arms[0]
        for arm in arms[1:]:
            word = self.random.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
            text = f"({text}) {word} ({arm})"
        tail, ordered = self._tail(len(kinds))
        return Statement(text + tail, ordered)

    def nested(self) -> Statement:
        """WITH, LATERAL, scalar sub-queries, series."""
        source, columns, self.key = self.source()
        table = self.random.choice(self.tables)
        inner = [Column(f"s.{c.name}", c.kind) for c in table.columns]
        integer = self.random.choice([c.name for c in columns if c.kind == "int4"])
        value = self.expression("int4", inner, 1)
        self.key = "s.id"
        aggregate = self.filled(self.random.choice(_AGGREGATES), inner, 1)
        output = self._outputs(columns, 1)[0]
        where = f"WHERE s.id {self.random.choice(['=', '<=', '>'])} {integer}"
        forms = (
            f"SELECT {output}, (SELECT {aggregate} FROM {table.name} s {where}) FROM {source}",
            f"SELECT {output}, l.v FROM {source}, LATERAL (SELECT {aggregate} AS v FROM {table.name} s {where}) l",
            f"SELECT {output}, l.v FROM {source} LEFT JOIN LATERAL (SELECT {value} AS v FROM {table.name} s {where}) l "
            "ON true",
            f"WITH w AS (SELECT {value} AS v, count(*) AS n FROM {table.name} s GROUP BY 1) "
            f"SELECT {output}, w.n FROM {source} JOIN w ON w.v = {integer}",
            f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 6) "
            f"SELECT {output}, r.n FROM {source} JOIN r ON r.n = {integer}",
            f"SELECT {output}, g FROM {source}, generate_series(1, 3) g WHERE g <= {integer} + 1",
            f"SELECT {output}, ARRAY(SELECT {value} FROM {table.name} s {where} ORDER BY 1) FROM {source}",
            f"SELECT {output}, x.c FROM {source} JOIN (VALUES (1, 'one'), (2, NULL)) x(n, c) ON x.n = {integer}",
        )
        tail, ordered = self._tail(2)
        return Statement(self.random.choice(forms) + tail, ordered)

    def change(self) -> list[Statement]:
        """INSERT, UPDATE or DELETE with RETURNING, then the whole table."""
        table = self.random.choice(self.tables)
        columns = table.columns
        target = self.random.choice(columns[1:])
        value = self.expression(target.kind, columns, 2)
        output = self._outputs(columns, 1)[0]
        numbers = [self.random.randint(0, 50) for _ in range(self.random.randint(1, 3))]
        rows = ", ".join(self._row(table, number) for number in numbers)
        other = self.random.choice(self.tables)
        far = [Column(f"o.{c.name}", c.kind) for c in other.columns]
        qualified = [Column(f"{table.name}.{c.name}", c.kind) for c in columns]
        made = ", ".join(
            [f"id + {self.random.randint(50, 5000)}", *(self.expression(c.kind, columns, 1) for c in columns[1:])]
        )
        forms = (
            f"INSERT INTO {table.name} VALUES {rows} RETURNING id, {output}",
            f"INSERT INTO {table.name} SELECT {made} FROM {table.name} WHERE {self.expression('bool', columns, 1)}",
            f"UPDATE {table.name} SET {target.name} = {value} WHERE {self.condition(columns)} RETURNING id, {output}",
            f"UPDATE {table.name} SET {target.name} = {value} WHERE id = {numbers[0]} RETURNING *",
            f"UPDATE {table.name} SET {target.name} = {self.expression(target.kind, qualified, 1)} FROM {other.name} o "
            f"WHERE o.id = {table.name}.id AND {self.expression('bool', far, 1)}",
            f"DELETE FROM {table.name} WHERE {self.condition(columns)} RETURNING {output}",
            f"DELETE FROM {table.name} USING {other.name} o WHERE o.id = {table.name}.id + 3 AND "
            f"{self.expression('bool', far, 1)} RETURNING {table.name}.id",
        )  # fmt: skip
        return [
            Statement(self.random.choice(forms), changes=True),
            Statement(f"SELECT * FROM {table.name} ORDER BY id", exact=True),
        ]

    def statements(self) -> Iterator[Statement]:
        makers = [self.plain] * 5 + [self.computed] * 4 + [self.grouped] * 4 + [self.windowed] * 2
        makers += [self.combined] * 2 + [self.nested] * 3 + ([self.drawn] * 3 if self.volatile else [])
        for _ in range(self.count):
            if self.random.random() < 0.15:
                yield from self.change()
            else:
                yield self.random.choice(makers)()
