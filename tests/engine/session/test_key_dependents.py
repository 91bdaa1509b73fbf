"""Views that group by a primary key keep it; beside PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.session.conftest import Pair


def test_a_view_that_groups_by_a_key_keeps_it(pair: Pair) -> None:
    pair.run(
        "create table t (a int primary key, b text, c int unique)",
        "create view plain as select a, count(*) from t group by a",
        "create view v as select a, b from t group by a",
        "create view w as select b from v",
    )
    for connection in (pair.shoal, pair.postgres):
        with pytest.raises(psycopg.errors.DependentObjectsStillExist) as raised:
            connection.execute("alter table t drop constraint t_pkey")
        assert raised.value.diag.message_primary == (
            "cannot drop constraint t_pkey on table t because other objects depend on it"
        )
        assert raised.value.diag.message_detail == (
            "view v depends on constraint t_pkey on table t\nview w depends on view v"
        )
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="dropping view v with a constraint"):
        pair.shoal.execute("alter table t drop constraint t_pkey cascade")
    pair.same("alter table t drop constraint t_c_key", "select * from w", "drop view w", "drop view v")
    pair.same("alter table t drop constraint t_pkey", "select * from plain", "select a, b from t group by a")
