"""`shoal check --dsn`: indexes that hold what the rows give, and planted damage, which it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import shoal
from engine.columnar.frames import encode_pairs
from engine.storage.keys import prefix_range, storage_prefix
from tests import forks
from tests.samples import Part, parts, some
from tests.server import ShoalServer

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b text, c int)",
    "CREATE INDEX t_plain ON t (a)",
    "CREATE INDEX t_hash ON t USING hash (b)",
    "CREATE UNIQUE INDEX t_unique ON t (b)",
    "CREATE UNIQUE INDEX t_include ON t (a, id) INCLUDE (c)",
    "CREATE INDEX t_partial ON t (c) WHERE a % 2 = 0",
    "CREATE INDEX t_expression ON t ((b || '!') DESC NULLS LAST)",
    "ALTER TABLE t ADD CONSTRAINT t_late UNIQUE (id, c) DEFERRABLE",
    "INSERT INTO t SELECT n, n % 100, 'b' || n, nullif(n % 7, 0) * 1000 + n FROM generate_series(1, 3000) n",
    "CREATE TABLE p (a int, b text, UNIQUE (a, b)) PARTITION BY RANGE (a)",
    "CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (1000) PARTITION BY LIST (b)",
    "CREATE TABLE p_low_x PARTITION OF p_low DEFAULT",
    "CREATE TABLE p_rest (a int NOT NULL, b text)",
    "INSERT INTO p_rest SELECT 1000 + n, n::text FROM generate_series(1, 70000) n",
    "CREATE INDEX p_b ON p (b)",
    "ALTER TABLE p ATTACH PARTITION p_rest DEFAULT",
    "INSERT INTO p SELECT n, n::text FROM generate_series(0, 99) n",
    "UPDATE t SET a = a + 1, b = b || 'x' WHERE id % 3 = 0",
    "DELETE FROM t WHERE id % 5 = 0",
)
INDEXES = (
    "t_plain", "t_hash", "t_unique", "t_include", "t_partial", "t_expression", "t_late", "p_low_x_a_b_key",
    "p_rest_a_b_key", "p_low_x_b_idx", "p_rest_b_idx",
)  # fmt: skip
Pairs = list[tuple[bytes, bytes]]
Damage = Callable[[Pairs], dict[bytes, bytes | None]]
DAMAGES: dict[str, Damage] = {
    "missing": lambda pairs: {pairs[len(pairs) // 2][0]: None},
    "stale": lambda pairs: {pairs[-1][0] + b"\x01": pairs[-1][1]},
    "wrong": lambda pairs: {pairs[0][0]: pairs[1][1]},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("indexes") / "data"


@pytest.fixture(scope="module")
def database(directory: Path) -> Iterator[shoal.Database]:
    with shoal.open(directory) as database:
        for statement in TABLES:
            database.execute(statement)
        yield database


def found(database: shoal.Database) -> dict[str, Any]:
    row = database.execute("SELECT shoal_check_indexes()").fetchone()
    assert row is not None
    answer: dict[str, Any] = json.loads(row[0])
    return answer


def plant(database: shoal.Database, index: str, damage: Damage) -> dict[bytes, bytes | None]:
    """Changes entries behind everybody's back; gives what undoes it."""
    row = database.execute("SELECT relfilenode::int8 FROM pg_class WHERE relname = %s", (index,)).fetchone()
    assert row is not None
    engine = database._engine
    node = engine.server.node

    def write() -> dict[bytes, bytes | None]:
        store = node.store.of(row[0])
        pairs = list(store.scan(*prefix_range(storage_prefix(row[0])), store.sequenced_lsn))
        changes = damage(pairs)
        node.commits.sequence(changes)
        before = dict(pairs)
        return {key: before.get(key) for key in changes}

    undo: dict[bytes, bytes | None] = engine.call(write)
    return undo


def test_all_is_well(database: shoal.Database) -> None:
    answer = found(database)
    assert answer["damaged"] == []
    assert answer["indexes"] >= len(INDEXES) + 1


@pytest.mark.parametrize(("kind", "index"), some(product(DAMAGES, INDEXES), 7))
def test_damage_is_named(database: shoal.Database, index: str, kind: str) -> None:
    undo = plant(database, index, DAMAGES[kind])
    (damage,) = found(database)["damaged"]
    assert damage["index"] == index
    assert {name: damage[name] for name in DAMAGES if damage[name]} == {kind: 1}
    plant(database, index, lambda _: undo)
    assert found(database)["damaged"] == []


def test_a_row_under_another_key(database: shoal.Database) -> None:
    first: Pairs = []
    plant(database, "t", lambda pairs: (first.extend(pairs[:2]), {pairs[0][0]: pairs[1][1]})[1])
    assert ("t_pkey", 1) in [(item["index"], item["wrong"]) for item in found(database)["damaged"]]
    plant(database, "t", lambda _: dict.fromkeys(dict(first)))  # an analytic copy finds rows by what they hold
    plant(database, "t", lambda _: dict(first))
    assert found(database)["damaged"] == []


KINDS = (
    "CREATE TABLE kinds (id int PRIMARY KEY, n numeric, f float8, x text, l int[], j jsonb, ts timestamptz, d date, "
    'b bytea, u uuid, i interval, m numeric(10,2), v varchar(20), c "char", many text[][])',
    "INSERT INTO kinds SELECT n, n / 7.0, n * 1.5, nullif('x' || n % 50, 'x7'), ARRAY[n, NULL], "
    "jsonb_build_object('a', n), timestamptz '2024-01-01' + n * interval '1 min', date '2024-01-01' + n, "
    "convert_to('b' || n, 'UTF8'), gen_random_uuid(), n * interval '1 hour', n, 'v' || n, 'c', ARRAY[ARRAY['a']] "
    "FROM generate_series(1, 40000) n",
    "CREATE TABLE without_key (a int, b text)",
    "INSERT INTO without_key SELECT n % 10, 'b' || n FROM generate_series(1, 1000) n",
)


def copies(database: shoal.Database, *tables: str) -> None:
    """Has the analytic worker make copies."""
    database.execute("SET shoal.path = columnar")
    for name in tables:
        database.execute(f"SELECT count(*), count(t.*) FROM {name} t").fetchall()
    database.execute("SET shoal.path = auto")


def another(key: bytes) -> bytes:
    """A key that no row has: a primary key, or a hidden row number, far above those that are there."""
    return key[:PREFIX] + bytes([key[PREFIX] + 1]) + key[PREFIX + 1 :]


PREFIX = len(storage_prefix(1))
SPOILT: dict[str, tuple[Damage, str]] = {
    "missing": (DAMAGES["missing"], "rows, the table"),
    "stale": (lambda pairs: {another(pairs[-1][0]): pairs[-1][1]}, "rows, the table"),
    "wrong": (DAMAGES["wrong"], "other values in"),
}


def spoil(database: shoal.Database, name: str, damage: Damage) -> Callable[[], None]:
    """Tells the worker of changes that the rows have not had; gives what undoes them. A row that was written under the
    key of another one is found by what it holds: it goes before the rows come back."""
    row = database.execute("SELECT relfilenode::int8 FROM pg_class WHERE relname = %s", (name,)).fetchone()
    assert row is not None
    node = database._engine.server.node

    def write(*parts: Any) -> None:
        for part in parts:
            node.columnar._write({"op": "apply", "storage_id": row[0]}, encode_pairs(dict(part).items()))

    def tell() -> Callable[[], None]:
        store = node.store.of(row[0])
        pairs = list(store.scan(*prefix_range(storage_prefix(row[0])), store.sequenced_lsn))
        changes = damage(pairs)
        rows = {key: value for key, value in pairs if key in changes or key in {pairs[1][0], pairs[-1][0]}}
        write(changes)
        return lambda: write(dict.fromkeys([*changes, *rows]), rows)

    undo: Callable[[], None] = database._engine.call(tell)
    return lambda: database._engine.call(undo)


@pytest.mark.parametrize("part", parts(8))
@pytest.mark.parametrize("last", [15000, pytest.param(30000, marks=pytest.mark.long)])
def test_copies_of_the_worker_are_compared(tmp_path: Path, last: int, part: Part) -> None:
    names = ("kinds", "without_key", "t", "p_rest")
    with shoal.open(tmp_path / "data") as database:
        for statement in (*TABLES, *KINDS):
            database.execute(statement)
        copies(database, *names)
        answer = found(database)
        assert (answer["copies"] >= len(names), answer["damaged"]) == (True, [])
        database.execute("UPDATE kinds SET x = 'changed', n = n + 1 WHERE id % 3 = 0")
        database.execute("DELETE FROM without_key WHERE a = 3")
        database.execute(f"INSERT INTO t SELECT n, n, n::text, n FROM generate_series(10001, {last}) n")
        assert found(database)["damaged"] == []
        for damage, wanted in part.of(SPOILT.values()):
            undo = [spoil(database, name, damage) for name in names]
            damaged = {(item["table"], item["index"]): item["message"] for item in found(database)["damaged"]}
            assert set(damaged) == {(name, "") for name in names}
            assert all(wanted in message for message in damaged.values()), damaged
            for mend in undo:
                mend()
        assert found(database)["damaged"] == []


@pytest.mark.parametrize("what", ["INDEX t_unique", "TABLE t", "SCHEMA public", "INDEX CONCURRENTLY t_unique"])
def test_reindex_mends(database: shoal.Database, what: str) -> None:
    plant(database, "t_unique", lambda pairs: dict.fromkeys([key for key, _ in pairs]))
    (damage,) = found(database)["damaged"]
    assert damage["missing"] == 2400
    database.execute(f"REINDEX {what}")
    assert found(database)["damaged"] == []


def test_only_superusers(database: shoal.Database) -> None:
    database.execute("CREATE ROLE nobody LOGIN")
    database.execute("SET ROLE nobody")
    with pytest.raises(shoal.Error, match=r"superuser|permission"):
        found(database)
    database.execute("RESET ROLE")


def test_the_command(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with shoal.open(directory) as database:
        database.execute("CREATE TABLE t (a int PRIMARY KEY, b int)")
        database.execute("CREATE INDEX t_b ON t (b)")
        database.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 10) n")
    with ShoalServer(directory) as server:
        done = forks.run("check", "--dsn", server.dsn)
        assert done.returncode == 0, done.stderr
        assert "match the rows of their tables" in done.stdout
    with shoal.open(directory) as database:
        plant(database, "t_b", DAMAGES["missing"])
    with ShoalServer(directory) as server:
        done = forks.run("check", "--dsn", server.dsn)
        assert done.returncode == 1
        assert "public.t" in done.stdout and "t_b" in done.stdout and "WRONG: 1 of" in done.stdout
        told = json.loads(forks.run("check", "--dsn", server.dsn, "--json").stdout)
        damaged = [item for entry in told["databases"] for item in entry["damaged"]]
        assert [(item["index"], item["missing"]) for item in damaged] == [("t_b", 1)]
