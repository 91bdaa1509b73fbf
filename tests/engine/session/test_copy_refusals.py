"""What COPY refuses, with the words of PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_what_copy_says_of_its_columns_and_of_where(pair: Pair) -> None:
    pair.run("create table t (a int, b text)")
    pair.same(
        "copy t (a) from stdin with (format csv, force_not_null (b))",
        "copy t (a) from stdin with (format csv, force_null (b))",
        "copy t (a) to stdout with (format csv, force_quote (b))",
        "copy t to stdout where a = 1",
        "copy t to stdout with (format csv) where a = 1 + ",
        "copy (select 1) to stdout where a = 1",
    )
