"""Types that are shown by name (regclass and its kin) within JSON, strings and arrays, beside PostgreSQL."""

from __future__ import annotations

import pytest

from tests.engine.session.conftest import Pair

FROM = "from pg_class where relname = 'pg_class'"


@pytest.mark.parametrize(
    "sql",
    [
        "select to_json('pg_class'::regclass), to_jsonb('pg_class'::regclass)",
        "select json_build_object('a', 'pg_class'::regclass)",
        "select jsonb_build_array('int4'::regtype, 1, null::regclass)",
        f"select row_to_json(r) from (select relkind, oid::regclass as name {FROM}) r",
        "select to_jsonb(r) from (select 'pg_class'::regclass as name, 'int4'::regtype as t) r",
        f"select json_agg(oid::regclass), jsonb_object_agg(oid::regclass, 'int4'::regtype) {FROM}",
        f"select jsonb_agg(r) from (select oid::regclass as name {FROM}) r",
        "select to_json(array['pg_class'::regclass, null]), array_to_json(array['int4'::regtype])",
        f"select array[oid::regclass]::text, oid::regclass || 'x', 'x' || oid::regclass {FROM}",
        f"select format('%s %I %L', oid::regclass, oid::regclass, oid::regclass), concat(oid::regclass, '-') {FROM}",
        f"select concat_ws('.', oid::regclass, 'int4'::regtype), quote_literal(oid::regclass) {FROM}",
        "select array_to_string(array['int4'::regtype, 'text'::regtype], ','), quote_nullable(null::regclass)",
    ],
)
def test_names_and_not_numbers(both_paths: Pair, sql: str) -> None:
    both_paths.same(sql)
