"""Column definition lists over every kind of function in FROM, beside PostgreSQL: which are allowed, which rows they
take, and what is said of those that they do not."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

SETUP = (
    "create type two as (a int, b text)",
    "create function f_point() returns point language sql as 'select point(1, 2)'",
    "create function f_points() returns setof point language sql as 'select point(1, 2)'",
    "create function f_int() returns int language sql as 'select 1'",
    "create function f_record() returns record language sql as $$ select 1, 'a'::text $$",
    "create function f_records() returns setof record language sql as "
    "$$ select n, 'a' || n from generate_series(1, 3) n $$",
    "create function f_numbers() returns setof record language sql as 'select n from generate_series(1, 3) n'",
    "create function f_row() returns record language sql as $$ select row(1, 'a'::text) $$",
    "create function f_of_type() returns record language sql as $$ select row(1, 'a')::two $$",
    "create function f_of(int, text) returns record language sql as $$ select $1, $2 $$",
    "create function f_two() returns two language sql as $$ select 1, 'a'::text $$",
    "create function f_table() returns table(a int, b text) language sql as $$ select 1, 'a'::text $$",
    "create function f_out(out a int, out b text) language sql as $$ select 1, 'a'::text $$",
    "create function f_out_one(out a int) language sql as 'select 1'",
)
CALLS = (
    "f_point()", "f_points()", "f_int()", "f_record()", "f_records()", "f_numbers()", "f_row()", "f_of_type()",
    "f_of(2, 'x')", "f_two()", "f_table()", "f_out()", "f_out_one()", "coalesce(row(1, 'a'::text), row(2, 'b'::text))",
    "unnest(array[row(1, 'a'::text), row(2, null::text)])", "unnest(array[1, 2])", "generate_series(1, 2)",
    "json_to_record('{\"a\": 1}')", "json_to_recordset('[{\"a\": 1}, {\"b\": 2}]')", "json_each('{\"a\": 1}')",
    "json_populate_record(null::two, '{\"a\": 1}')", "current_date", "version()",
)  # fmt: skip
LISTS = (
    "a int", "a int, b text", "a int, b int", "a int, b text, c int", "a bigint, b varchar(3)", "a box",
    "a numeric(10, 2), b text", "a int, a text", "a record, b text", "a unknown, b text", "a anyelement, b text",
    "a void", "a text, b text",
)  # fmt: skip
FORMS = ("{0} as t({1})", "rows from ({0} as ({1})) as t", "{0} with ordinality as t({1})")
UNLIKE = {"json_to_record('{\"a\": 1}')", 'json_to_recordset(\'[{"a": 1}, {"b": 2}]\')'}
"""Functions that read their rows as the list says: what of it they cannot read is told in words of their own."""


@pytest.mark.parametrize("call", CALLS)
def test_each_list_over_each_function(pair: Pair, call: str) -> None:
    pair.run(*SETUP)
    special = call == "current_date" or call.startswith("coalesce")
    for listed in LISTS:
        if call in UNLIKE and ("record" in listed or "box" in listed):
            continue
        pair.same(*(f"select * from {form.format(call, listed)}" for form in FORMS[: 1 if special else None]))


def test_lists_of_several_functions(pair: Pair) -> None:
    pair.run(*SETUP)
    record = "json_to_record('{\"a\": 1}')"
    pair.same(
        f"select * from rows from ({record} as (a int, b text), generate_series(1, 2)) as t(x, y, z)",
        f"select * from rows from ({record} as (a int), {record} as (b int, c text)) with ordinality",
        f"select * from rows from ({record} as (a int), {record})",
        f"select * from rows from ({record} as (a int), generate_series(1, 2)) as t(a int)",
        f"select * from rows from ({record}, generate_series(1, 2)) as t(a int)",
        "select * from rows from (generate_series(1, 2) as (a int), generate_series(1, 2))",
        "select * from unnest(array[1], array[2]) as t(a int, b int)",
        f"select * from {record}",
        "select * from f_records()",
        "select * from f_record() as t(x, y)",
        "select f_records(), f_record()",
        "select f_records()",
        "select f_numbers()",
    )


def test_collations_of_lists(pair: Pair) -> None:
    pair.run(*SETUP, 'create domain c_text as text collate "C"')
    record, rows = 'json_to_record(\'{"a": "x", "b": "y"}\')', "f_of(2, 'x')"
    for listed in (
        'a text collate "C", b text', 'a text collate "C", b text collate "POSIX"', 'a int collate "C", b text',
        'a text, b text collate "none"', 'a text collate pg_catalog."C", b varchar(3) collate "C.utf8"',
        'a text[] collate "C", b text', "a c_text, b text", 'a c_text collate "POSIX", b text',
        'a text collate "default", b text collate none.none',
    ):  # fmt: skip
        for form in FORMS:
            pair.same(
                f"select collation for (a), collation for (b) from {form.format(record, listed)}",
                f"select a < b from {form.format(record, listed)}",
                f"select a from {form.format(record, listed)} order by a || b",
            )
    for listed in ('a int, b text collate "C"', 'a int collate "C", b text'):
        pair.same(f"select collation for (b), b collate \"POSIX\" < 'y' from {rows} as t({listed})")
    pair.same(
        f'select collation for (a), collation for (b) from rows from ({record} as (a text collate "C"), '
        f'{record} as (b text collate "POSIX")) as t',
        f'select a < b from rows from ({record} as (a text collate "C"), {record} as (b text collate "POSIX")) as t',
    )


def test_a_view_keeps_the_collations_of_its_list(pair: Pair) -> None:
    pair.run(
        *SETUP,
        'create collation own from "POSIX"',
        "create view listed as select * from f_records() as t(a int, b text collate own)",
    )
    pair.same(
        "select b < 'b' collate \"C\" from listed",
        "drop collation own",
        "select collation_name from information_schema.columns where table_name = 'listed' and column_name = 'b'",
    )
