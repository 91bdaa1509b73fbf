"""`shoal pipeline import`: what is written, what is put aside and where it stood, what a second run leaves out; nothing
is left of what did not come to its end."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from shoal_spark.jobs.import_job import ImportOptions, run_import
from shoal_spark.jobs.server_access import ServerAccess, find_server
from shoal_spark.jobs.session import spark_session
from shoal_spark.jobs.summary import JobError, Summary
from tests.cluster import ShoalCluster
from tests.server import ROOT, ShoalServer
from tests.spark.test_source import Shoal

_names = itertools.count()


class NoBars:
    def show(self, what: str, done: int, total: int) -> None:
        pass


class Jobs:
    """Jobs in the tests' session."""

    def __init__(self, source: Shoal) -> None:
        self.source = source
        self.server: ServerAccess = find_server(source.dsn)

    def table(self, definition: str = "") -> str:
        """A name that nobody has, of a table that is made if there is a definition."""
        name = f"imported_{next(_names)}"
        self.source.run(f"DROP TABLE IF EXISTS {name}")
        if definition:
            self.source.run(f"CREATE TABLE {name} ({definition})")
        return name

    def run(self, *sources: pathlib.Path, **wanted: Any) -> Summary:
        with spark_session("") as spark:
            return run_import(spark, self.server, ImportOptions(tuple(map(str, sources)), **wanted), NoBars())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.source.rows(query)


@pytest.fixture(scope="session")
def jobs(spark: SparkSession, shoal: ShoalServer) -> Jobs:
    return Jobs(Shoal(spark, "shoal", shoal.dsn, shoal.port))


def _write(path: pathlib.Path, text: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _aside(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


CSV = """id,name,amount,at,flag,u
1,"Zoë ""Z"", a",1.25,2024-02-29 12:00:00,t,00112233-4455-6677-8899-aabbccddeeff
2,,12345.678,2024-01-01,no,
x3,"a, b",1,2024-01-01,t,
4,short
5,long,1,2024-01-01,t,,more
6,when,1,2024-13-01,t,
7,flag,1,2024-01-01,maybe,
8,u,1,2024-01-01,t,zz
9,too long for ten,1,2024-01-01,t,
10,digits,123456789012345678901,2024-01-01,t,
,none,1,2024-01-01,t,
1.5,half,1,2024-01-01,t,
12,"",,,,
"""
DEFINITION = "id int PRIMARY KEY, name varchar(10), amount numeric(10, 2), at timestamp, flag bool, u uuid"


def test_bad_records_are_put_aside_with_their_lines_and_reasons(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    table = jobs.table(DEFINITION)
    file, aside = _write(tmp_path / "a b%1.csv", CSV), tmp_path / "aside.jsonl"
    with pytest.raises(JobError, match=r"10 records were rejected, more than 9 .*aside.jsonl, and nothing was written"):
        jobs.run(file, table=table, most=9, rejects=str(aside))
    assert jobs.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    summary = jobs.run(file, table=table, most=10, rejects=str(aside))
    assert (summary.rows, summary.rejected, summary.bytes) == (3, 10, file.stat().st_size)
    assert jobs.rows(f"SELECT id, name, amount, at, flag, u::text FROM {table} ORDER BY id") == [
        (1, 'Zoë "Z", a', Decimal("1.25"), datetime.datetime(2024, 2, 29, 12), True,
         "00112233-4455-6677-8899-aabbccddeeff"),
        (2, None, Decimal("12345.68"), datetime.datetime(2024, 1, 1), False, None),
        (12, "", None, None, None, None),
    ]  # fmt: skip
    lines = CSV.splitlines()
    found = _aside(aside)
    assert [item["line"] for item in found] == [*range(4, 14)]
    assert [item["record"] for item in found] == lines[3:13]
    assert {item["file"] for item in found} == {str(file)}
    assert [item["reason"] for item in found] == [
        'column "id": "x3" is not a value of type integer',
        "the record has 2 fields, expected 6",
        "the record has 7 fields, expected 6",
        'column "at": "2024-13-01" is not a value of type timestamp without time zone',
        'column "flag": "maybe" is not a value of type boolean',
        'column "u": "zz" is not a value of type uuid',
        'value too long for column "name" of type character varying(10)',
        'column "amount": "123456789012345678901" is not a value of type numeric(10,2)',
        'null value in column "id", which is NOT NULL',
        'column "id": "1.5" is not a value of type integer',
    ]


def test_lines_are_right_where_spark_cuts_a_file(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    table = jobs.table("id int, t text")
    bad = {5, 7000, 13000, 19999}
    lines = ["id,t", *(f"{'x' if number in bad else ''}{number},same" for number in range(2, 20002))]
    file = _write(tmp_path / "cut.csv", "\n".join(lines) + "\n")
    spark = jobs.source.spark
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        summary = jobs.run(file, table=table, most=4, rejects=str(tmp_path / "aside"))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    assert (summary.rows, summary.rejected) == (19996, 4)
    assert [(item["line"], item["record"]) for item in _aside(tmp_path / "aside")] == [
        (number, f"x{number},same") for number in sorted(bad)
    ]


def test_json_into_a_table(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    table = jobs.table("id bigint NOT NULL, n numeric, data jsonb, tags text[], t text")
    exact = "123456789012345678901234567890.12345678901234567890"
    text = (
        f'{{"id": 1, "n": {exact}, "data": {{"a": [1, "1"]}}, "tags": ["x", null], "t": {{"k": 1}}}}\n'
        '{"id": "2", "data": "1", "t": null}\n'
        "{broken\n"
        '{"n": 1}\n'
        '{"id": 3, "n": "many"}\n'
    )
    file = _write(tmp_path / "a.jsonl", text)
    assert jobs.run(file, table=table, most=3, rejects=str(tmp_path / "aside")).rows == 2
    assert jobs.rows(f"SELECT id, n, data, tags, t FROM {table} ORDER BY id") == [
        (1, Decimal(exact), {"a": [1, "1"]}, ["x", None], '{"k": 1}'),
        (2, None, "1", None, None),
    ]
    found = _aside(tmp_path / "aside")
    assert [item["line"] for item in found] == [3, 4, 5]
    assert found[0]["reason"].startswith("the line is not JSON: ")
    assert [item["record"] for item in found] == text.splitlines()[2:]
    assert [item["reason"] for item in found[1:]] == [
        'null value in column "id", which is NOT NULL', 'column "n": "many" is not a value of type numeric',
    ]  # fmt: skip


def test_a_table_is_made_for_what_is_inferred(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    kinds = (
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0"
        " ORDER BY attnum"
    )
    csv = _write(tmp_path / "t.csv", "Id,x,at,t\n1,1.5,2024-01-01 10:00:00,a\n2,,,\n")
    table = jobs.table()
    jobs.run(csv, table=table, key=("Id",))
    assert jobs.rows(kinds.format(table)) == [
        ("Id", "integer"), ("x", "double precision"), ("at", "timestamp with time zone"), ("t", "text"),
    ]  # fmt: skip
    assert jobs.rows(f'SELECT "Id", x, t FROM {table} ORDER BY 1') == [(1, 1.5, "a"), (2, None, None)]
    nested = jobs.table()
    jobs.run(_write(tmp_path / "t.json", '{"a": 1, "b": {"c": [true]}, "d": [1, 2], "e": null}\n'), table=nested)
    assert jobs.rows(f"SELECT a, b, d, e FROM {nested}") == [(1, {"c": [True]}, [1, 2], None)]
    given = jobs.table()
    jobs.run(csv, table=given, definition='"Id" smallint PRIMARY KEY, x numeric(4, 1), at date, t text')
    assert jobs.rows(f"SELECT x, at FROM {given} WHERE x > 1") == [(Decimal("1.5"), datetime.date(2024, 1, 1))]
    failed = jobs.table()
    with pytest.raises(JobError, match="1 records were rejected"):
        jobs.run(csv, table=failed, definition='"Id" int, x int, at date, t text', rejects=str(tmp_path / "aside"))
    assert jobs.rows(f"SELECT to_regclass('{failed}')") == [(None,)]


def test_parquet_in_folders_and_what_does_not_fit(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    frame = jobs.source.spark.range(100).selectExpr(
        "cast(id as int) as id", "id % 3 as g", "cast(id as float) as x", "nullif(id, 7) as n", "id as t"
    )
    frame.drop("t").write.partitionBy("g").parquet(str(tmp_path / "data"))
    table = jobs.table("id bigint, g int, x float8, n bigint NOT NULL")
    summary = jobs.run(tmp_path / "data", table=table, most=1, rejects=str(tmp_path / "aside"))
    assert (summary.rows, summary.rejected) == (99, 1)
    assert jobs.rows(f"SELECT sum(id), sum(x), count(DISTINCT g) FROM {table}") == [(4943, 4943.0, 3)]
    (found,) = _aside(tmp_path / "aside")
    assert found["line"] == 3 and json.loads(found["record"]) == {"id": 7, "x": 7.0, "g": 1}
    wrong = jobs.table("id bigint, t date")
    frame.select("id", "t").write.parquet(str(tmp_path / "wrong"))
    with pytest.raises(JobError, match='column "t" is of type date but the data is of Arrow\'s type int64'):
        jobs.run(tmp_path / "wrong", table=wrong)
    with pytest.raises(JobError, match=r'column "t" of the data is none of the table .* which has id, g, x, n'):
        jobs.run(tmp_path / "wrong", table=table)


def test_modes(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    table = jobs.table("id int PRIMARY KEY, t text DEFAULT 'none'")
    first = _write(tmp_path / "1.csv", "id,t\n1,a\n2,b\n")
    second = _write(tmp_path / "2.tsv", "T\tID\nB\t2\nc\t3\n")
    for file, mode, expected in (
        (first, "append", [(1, "a"), (2, "b")]),
        (second, "upsert", [(1, "a"), (2, "B"), (3, "c")]),
        (second, "overwrite", [(2, "B"), (3, "c")]),
        (_write(tmp_path / "3.csv", "id\n4\n"), "append", [(2, "B"), (3, "c"), (4, "none")]),
    ):
        jobs.run(file, table=table, mode=mode)
        assert jobs.rows(f"SELECT * FROM {table} ORDER BY id") == expected
    with pytest.raises(JobError, match="duplicate key value violates unique constraint"):
        jobs.run(first, table=table)
    assert jobs.rows(f"SELECT count(*) FROM {table}") == [(3,)]
    assert jobs.source.nothing_staged()


def test_a_job_goes_on_where_it_was_and_takes_new_files(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    table, folder = jobs.table("id int"), tmp_path / "in"
    for number in range(4):
        _write(folder / f"{number}.csv", f"id\n{number}\n" if number != 2 else "id\nx\n")
    wanted: dict[str, Any] = {"table": table, "job": f"job of {table}", "step_bytes": 1}
    with pytest.raises(JobError, match="1 records were rejected"):
        jobs.run(folder, **wanted, rejects=str(tmp_path / "aside"))
    assert jobs.rows(f"SELECT id FROM {table} ORDER BY 1") == [(0,), (1,)]
    _write(folder / "2.csv", "id\n22\n")
    _write(folder / "4.csv", "id\n4\n")
    summary = jobs.run(folder, **wanted)
    assert (summary.rows, summary.more["files"], summary.more["files_done_before"]) == (3, 3, 2)
    assert jobs.run(folder, **wanted).rows == 0
    assert jobs.rows(f"SELECT id FROM {table} ORDER BY 1") == [(0,), (1,), (3,), (4,), (22,)]
    _write(folder / "1.csv", "id\n1111\n")
    with pytest.raises(JobError, match=r"1.csv has changed since the job"):
        jobs.run(folder, **wanted)


# ---- the command -----------------------------------------------------------------------------------------------------


def _command(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    command = [sys.executable, "-m", "shoal", "pipeline", *arguments, "--master", "local[2]"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **more)


def _wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
def test_the_command_leaves_no_secret_and_nothing_else(shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    _write(tmp_path / "a.csv", "id,t\n1,a\n2,b\nx,c\n")
    events = tmp_path / "events"
    events.mkdir()
    process = _command(
        "import", "a.csv", "command_import", "--dsn", shoal.dsn, "--json", "--verbose", "--mode", "overwrite",
        "--schema", "id int PRIMARY KEY, t text", "--max-rejected", "1",
        "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={events}",
        cwd=tmp_path, env={"PGPASSWORD": "secret-word"},
    )  # fmt: skip
    arguments = pathlib.Path(f"/proc/{process.pid}/cmdline").read_text()
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    found = json.loads(output)
    assert (found["rows"], found["rejected"], found["bytes"]) == (2, 1, 17)
    logged = [path.read_bytes() for path in events.rglob("*") if path.is_file()]
    assert logged and not any(b"secret-word" in text for text in logged)
    assert "secret-word" not in output + errors + arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "command_import.rejected.jsonl", "events"]
    told = _command("import", "a.csv", "t", "--dsn", f"{shoal.dsn} password=secret-word")
    output, errors = told.communicate(timeout=60)
    assert told.returncode == 1 and "PGPASSWORD" in errors and "secret-word" not in errors


_WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'held'::regclass"


@pytest.mark.long
def test_an_interrupted_import_leaves_nothing(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    """It waits for a lock in its commit when it is interrupted."""
    _write(tmp_path / "a.csv", "id\n1\n")
    with psycopg.connect(private_shoal.dsn, autocommit=True) as looking:
        looking.execute("CREATE TABLE held (id int)")
        looking.execute("INSERT INTO held VALUES (0)")
        for number in (signal.SIGINT, signal.SIGTERM):
            with psycopg.connect(private_shoal.dsn) as holder:
                holder.execute("LOCK TABLE held")
                process = _command("import", "a.csv", "held", "--dsn", private_shoal.dsn, cwd=tmp_path)
                _wait_until(lambda: looking.execute(_WAITING).fetchone() is not None, process)
                process.send_signal(number)
                errors = process.communicate(timeout=120)[1]
                assert process.returncode == 1 and "interrupted" in errors, errors
            assert looking.execute("SELECT id FROM held").fetchall() == [(0,)]
        assert Shoal(None, "", private_shoal.dsn, private_shoal.port).nothing_staged()  # type: ignore[arg-type]


@pytest.mark.long
def test_an_import_into_a_cluster_by_a_node_that_follows(tmp_path: pathlib.Path) -> None:
    _write(tmp_path / "a.csv", "id,t\n" + "".join(f"{number},text {number}\n" for number in range(1000)))
    with ShoalCluster(nodes=2) as cluster:
        leader = cluster.leader()
        follower = next(node for node in cluster.nodes if node != leader)
        process = _command("import", "a.csv", "t", "--dsn", cluster.dsn(follower), "--json", cwd=tmp_path)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert json.loads(output)["rows"] == 1000
        with psycopg.connect(cluster.dsn(leader)) as connection:
            assert connection.execute("SELECT count(*), sum(id) FROM t").fetchone() == (1000, 499500)
