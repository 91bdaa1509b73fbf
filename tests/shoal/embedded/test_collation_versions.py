"""Indexes whose keys another version of ICU has made: not read, not written, rebuilt by REINDEX."""

from __future__ import annotations

import pathlib

import pytest

import shoal
from catalog import icu


def test_an_index_of_another_version_of_icu_is_left_alone_until_it_is_rebuilt(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.open(tmp_path) as database, database.connect() as connection:
        connection.autocommit = True
        cursor = connection.cursor()

        def one(sql: str) -> object:
            cursor.execute(sql)
            return cursor.fetchall()

        cursor.execute('CREATE TABLE t (a text COLLATE "de-x-icu" PRIMARY KEY, b int)')
        cursor.execute("INSERT INTO t SELECT chr(97 + n), n FROM generate_series(0, 20) n")
        plan = str(one("EXPLAIN (COSTS OFF) SELECT b FROM t WHERE a > 's' ORDER BY a"))
        assert "Index Scan using t_pkey" in plan
        real = icu.version_of
        monkeypatch.setattr(icu, "version_of", lambda locale: real(locale) + ".9")
        cursor.execute("CREATE VIEW planned_anew AS SELECT 1")
        plan = str(one("EXPLAIN (COSTS OFF) SELECT b FROM t WHERE a > 's' ORDER BY a"))
        assert "t_pkey" not in plan
        assert one("SELECT b FROM t WHERE a > 's' ORDER BY a") == [(19,), (20,)]
        with pytest.raises(shoal.Error, match='index "t_pkey" was built with another version') as raised:
            cursor.execute("INSERT INTO t VALUES ('x', 1)")
        assert raised.value.sqlstate == "55000"
        cursor.execute("REINDEX TABLE t")
        cursor.execute("INSERT INTO t VALUES ('x', 1)")
        with pytest.raises(shoal.Error, match="duplicate key"):
            cursor.execute("INSERT INTO t VALUES ('c', 1)")
        plan = str(one("EXPLAIN (COSTS OFF) SELECT b FROM t WHERE a > 's' ORDER BY a"))
        assert "Index Scan using t_pkey" in plan
        assert one("SELECT b FROM t WHERE a > 's' ORDER BY a") == [(19,), (20,), (1,)]
