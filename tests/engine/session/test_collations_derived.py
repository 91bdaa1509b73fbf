"""Which collation decides, and which letters it knows, on Shoal and on PostgreSQL: the classes, generated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.samples import Part, parts
from tests.server import ShoalServer

LETTERS = "Straße ÄÖ äö ΣΊΣ éT 1ä2b x_Y"
FEW, MANY = 3, 3000


def answer(connection: psycopg.Connection, statement: str) -> object:
    """The rows of a statement, or its SQLSTATE."""
    try:
        return connection.execute(statement.encode()).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


@pytest.fixture
def both(postgres_server: PostgresServer, shoal: ShoalServer) -> Iterator[tuple[psycopg.Connection, ...]]:
    """A connection to each, in a schema of its own with the same tables."""
    connections = [psycopg.connect(found.dsn, autocommit=True) for found in (postgres_server, shoal)]
    for connection in connections:
        connection.execute("create schema derived")
        connection.execute("set search_path to derived")
        for name, rows in (("few", FEW), ("many", MANY)):
            columns = 'id int primary key, d text, c text collate "C", p text collate "POSIX", u text collate "C.utf8"'
            connection.execute(f"create table {name} ({columns})".encode())
            text = f"'{LETTERS} ' || g % 7"
            series = f"generate_series(1, {rows}) g"
            connection.execute(f"insert into {name} select g, {text}, {text}, {text}, {text} from {series}".encode())
    yield tuple(connections)
    for connection in connections:
        connection.execute("drop schema derived cascade")
        connection.close()


@pytest.mark.parametrize("table", ["few", "many"])
@pytest.mark.parametrize("part", parts(2))
def test_case_mappings_know_the_letters_of_the_collation(
    both: tuple[psycopg.Connection, ...], table: str, part: Part
) -> None:
    operands = [*"dcpu", 'd collate "C"', 'c collate "default"', 'p collate "C.utf8"', "d || c", "d collate ucs_basic"]
    shapes = ("lower(@)", "upper(@)", "initcap(@)", "@ ilike '%äÖ%'", "@ not ilike '%ÉT%'", "@ ilike '%X\\_y%'",
              "upper(@)::varchar(9)", "max(lower(@))")  # fmt: skip
    for operand, shape in part.of(itertools.product(operands, shapes)):
        expression = shape.replace("@", f"({operand})")
        statement = (
            f"select distinct {expression} from {table}" if "max" not in shape else f"select {expression} from {table}"
        )
        one, other = (sorted(map(repr, found)) for found in (answer(each, statement) for each in both))
        assert one == other, statement


REGULAR = (
    "@ ~ 'ä'", "@ ~* 'ÄÖ'", "@ !~* 'É'", "@ ~ '[[:alpha:]]ö'", "@ ~ '\\wÖ'", "@ ~ '^\\w+$'", "@ ~ '\\yß'", "@ ~ '\\mä'",
    "@ ~ '(?i)Σ'",
    "@ ~* '([äÄ])\\1'", "regexp_replace(@, '\\W', '.', 'g')", "regexp_replace(@, '[[:upper:]]', '.', 'gi')",
    "regexp_count(@, '[[:lower:]]', 1, 'i')", "regexp_match(@, '(\\w+) (\\w+)')", "substring(@ from '[[:upper:]]+ ')",
    "regexp_split_to_array(@, '\\W+')", "regexp_substr(@, 'SS', 1, 1, 'i')", "regexp_like(@, 'STRAßE', 'i')",
    "@ similar to '%[[:upper:]]ö%'", "@ ~ any (array['Äö', '\\wÖ'])", "@ ilike any (array['%äÖ%', 'x'])",
    "@ not ilike all (array['%ÉT%', 'x'])", "@ ilike upper(d)", "@ ilike lower(@)",
    "regexp_instr(@, '[^[:alnum:][:space:]]')",
)  # fmt: skip
"""What knows letters, and letters in two cases."""


@pytest.mark.parametrize("table", ["few", "many"])
@pytest.mark.parametrize("part", parts(3))
def test_regular_expressions_know_the_letters_of_the_collation(
    both: tuple[psycopg.Connection, ...], table: str, part: Part
) -> None:
    operands = ["d", "c", "p", "u", 'd collate "C"', 'c collate "default"', "d || c", "d collate ucs_basic"]
    every = 1 if table == "few" else 3  # many rows take the other path, and longer
    for operand, shape in part.of(list(itertools.product(operands, REGULAR))[::every]):
        statement = f"select distinct {shape.replace('@', f'({operand})')} from {table}"
        one, other = (sorted(map(repr, found)) for found in (answer(each, statement) for each in both))
        assert one == other, statement


def conflicts() -> Iterator[str]:
    """Statements over columns whose collations agree or not, derived or written."""
    pairs = [
        (one, other)
        for one, other in itertools.product(("d", "c", "p", 'd collate "C"', 'c collate "POSIX"', "'x'"), repeat=2)
    ]
    for one, other in pairs:
        arms = f"select {one} as x from few union all select {other} from few"
        for shape in (
            "select {one} < {other} from few", "select {one} = {other} from few", "select {one} || {other} from few",
            "select upper({one} || {other}) from few", "select id from few order by {one} || {other}, id",
            "select count(*) from few group by {one} || {other}", "select distinct {one} || {other} from few",
            "select max({one} || {other}) from few", "select coalesce({one}, {other}) < 'm' from few",
            "select case when id = 1 then {one} else {other} end < 'm' from few",
            "select greatest({one}, {other}) from few", "select nullif({one}, {other}) from few",
            "select {one} like {other} from few", "select ({one} || {other}) ~ 'x' from few",
            "select {one} is distinct from {other} from few", "select {one} in ('q', {other}) from few",
            "select array[{one}, {other}] < array['a'] from few", "select row({one}, 1) < row({other}, 2) from few",
            "{arms} order by 1", "select x from ({arms}) q order by x", "select x < 'm' from ({arms}) q",
            "select x = 'm' from ({arms}) q", "select lower(x) from ({arms}) q", "select x || 'b' from ({arms}) q",
            'select x from ({arms}) q order by x collate "C"', "select max(x) from ({arms}) q",
            "select distinct x from ({arms}) q", "select count(*) from ({arms}) q group by x",
            "select x like 'a%' from ({arms}) q", "select x = c from ({arms}) q, few",
            "select x || d < 'm' from ({arms}) q, few",
            "select {one} as x from few union select {other} from few",
            "select {one} as x from few except select {other} from few",
            "select {one} as x from few intersect all select {other} from few",
            "with recursive r(x, n) as (select {one}, 1 from few union all select {other}, n + 1 from r, few"
            " where n < 2) select count(*) from r",
            "select collation for ({one} || {other}) from few limit 1",
            "select collation for (x) from ({arms}) q limit 1",
        ):  # fmt: skip
            yield shape.format(one=one, other=other, arms=arms)


def test_conflicting_collations_raise_where_a_collation_is_needed(both: tuple[psycopg.Connection, ...]) -> None:
    wrong = []
    for statement in conflicts():
        one, other = (answer(each, statement) for each in both)
        same = one == other if isinstance(one, str) or isinstance(other, str) else sorted(one) == sorted(other)
        if not same:
            wrong.append(f"{statement}: {str(one)[:60]}, not {str(other)[:60]}")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong)


def test_changes_through_views(both: tuple[psycopg.Connection, ...]) -> None:
    """A collation decides in a condition, a value or a RETURNING of a change that goes through a view."""
    statements = (
        """update v set d = upper(d collate "C") where c > 'S' collate "C" returning id, d, lower(d collate "C")""",
        """delete from v where d collate "C" < 'z' and id = 1 returning upper(c collate "default")""",
        """insert into v (id, d) values (100, lower('ÄÖ' collate "C")) returning id, d""",
        """update v set d = v.d || 'x' from many where many.id = v.id and many.d = v.d collate "C" returning v.id""",
    )
    for connection in both:
        connection.execute("create view v as select id, d, c from few")
    for statement in statements:
        one, other = (answer(each, statement) for each in both)
        assert isinstance(one, list), statement
        assert isinstance(other, list), (statement, other)
        assert sorted(map(repr, other)) == sorted(map(repr, one)), statement
