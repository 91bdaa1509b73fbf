"""`shoal pipeline export` and `query`: files and answers of one LSN, whole or not there."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from shoal_spark.jobs import export_job
from shoal_spark.jobs.export_job import ExportOptions, run_export
from shoal_spark.jobs.query_job import QueryAnswer, QueryOptions, run_query, statements
from shoal_spark.jobs.session import spark_session
from shoal_spark.jobs.summary import JobError, Summary
from tests.server import ROOT, ShoalServer
from tests.spark.test_pipeline_import import Jobs, NoBars
from tests.spark.test_source import Shoal

pytestmark = pytest.mark.long

_OF_ALL = (
    "id int PRIMARY KEY, g int, n numeric(10, 2), t text, b bytea, a text[], d date, ts timestamp, j jsonb, o bool"
)


@pytest.fixture(scope="session")
def jobs(spark: SparkSession, shoal: ShoalServer) -> Jobs:
    return Jobs(Shoal(spark, "shoal", shoal.dsn, shoal.port))


@pytest.fixture
def table(jobs: Jobs) -> str:
    name = jobs.table(_OF_ALL)
    jobs.source.run(
        f"INSERT INTO {name} SELECT i, i % 3, i / 4.0, CASE i % 4 WHEN 0 THEN '' WHEN 1 THEN 'a \"b\", ü' END,"
        " decode(lpad(to_hex(i), 8, '0'), 'hex'), ARRAY['x,y', NULL, 'q\"', '\\', i::text], date '2024-01-01' + i % 50,"
        " timestamp '2024-01-01' + i * interval '1 minute', jsonb_build_object('i', i), i % 2 = 0"
        " FROM generate_series(1, 999) i"
    )
    return name


def _export(jobs: Jobs, to: pathlib.Path, **wanted: Any) -> Summary:
    with spark_session("") as spark:
        return run_export(spark, jobs.server, ExportOptions(str(to), **wanted), NoBars())


def test_what_is_exported_is_what_is_imported_again(jobs: Jobs, table: str, tmp_path: pathlib.Path) -> None:
    for kind in ("parquet", "csv", "json"):
        summary = _export(jobs, tmp_path / kind, table=table, format=kind)
        assert summary.rows == 999 and summary.bytes > 999
        again = jobs.table(_OF_ALL)
        assert jobs.run(tmp_path / kind, table=again, format=kind, rejects=str(tmp_path / "aside")).rows == 999
        assert jobs.rows(f"SELECT count(*) FROM (SELECT * FROM {table} EXCEPT SELECT * FROM {again}) AS q") == [(0,)], (
            kind
        )


def test_partitioned_and_in_one_moment(jobs: Jobs, table: str, tmp_path: pathlib.Path) -> None:
    (before,) = jobs.rows("SELECT pg_current_wal_lsn() - '0/0'")[0]
    summary = _export(jobs, tmp_path / "out", table=table, partition_by=("g",))
    assert summary.more["lsn"] == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["g=0", "g=1", "g=2"]
    frame = jobs.source.spark.read.parquet(str(tmp_path / "out"))
    assert frame.agg(f.sum("id")).collect()[0][0] == 499500
    with pytest.raises(JobError, match="is not empty"):
        _export(jobs, tmp_path / "out", table=table)
    with pytest.raises(JobError, match='there is no column "h"; there are id, g'):
        _export(jobs, tmp_path / "new", table=table, partition_by=("h",))
    # A query that fails in the end: what is to be replaced stays.
    with pytest.raises(JobError, match="division by zero"):
        _export(jobs, tmp_path / "out", query=f"SELECT 1 / (id - 999) AS x FROM {table}", mode="overwrite")
    assert frame.count() == 999
    assert _export(jobs, tmp_path / "out", query=f"SELECT id FROM {table} WHERE id < 3", mode="overwrite").rows == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_broken_export_goes_on_at_its_lsn(
    jobs: Jobs, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_job, "PART_BYTES", 8192)
    whole, calls = export_job._write, []

    def broken(*given: Any) -> int:
        calls.append(1)
        rows = whole(*given)
        if len(calls) == 2:
            raise JobError("broken off")  # the step's files are there, and not known
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(export_job, "_write", broken)
        with pytest.raises(JobError, match="broken off"):
            _export(jobs, tmp_path / "out", table=table, resume=True, parts_a_step=1)
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    jobs.source.run(f"DELETE FROM {table} WHERE id > 10")
    summary = _export(jobs, tmp_path / "out", table=table, resume=True, parts_a_step=1)
    assert 0 < summary.rows < 999 and (tmp_path / "out" / "_SUCCESS").exists()
    rows = jobs.source.spark.read.parquet(str(tmp_path / "out")).agg(f.count("*"), f.countDistinct("id")).collect()
    assert tuple(rows[0]) == (999, 999)
    assert _export(jobs, tmp_path / "out", table=table, resume=True).rows == 0
    with pytest.raises(JobError, match="holds another export"):
        _export(jobs, tmp_path / "out", table=table, resume=True, format="csv")


# ---- query -----------------------------------------------------------------------------------------------------------


def _query(jobs: Jobs, text: str, **wanted: Any) -> QueryAnswer:
    with spark_session("") as spark:
        return run_query(spark, jobs.server, QueryOptions(text, **wanted), NoBars())


def test_statements_are_told_apart() -> None:
    text = 'SELECT \';\' AS a, "x;\\"" -- no; end\n; /* ; */ SELECT `a;b`, 1-1 / 2;\n;'
    assert statements(text) == ['SELECT \';\' AS a, "x;\\""', "SELECT `a;b`, 1-1 / 2"]


def test_a_file_of_sql_over_tables_of_two_schemas(jobs: Jobs, table: str, tmp_path: pathlib.Path) -> None:
    jobs.source.run("CREATE SCHEMA IF NOT EXISTS stock", f"CREATE VIEW stock.of_{table} AS SELECT id, g FROM {table}")
    text = f"""
        CREATE TEMPORARY VIEW evens AS SELECT id, g FROM {table} WHERE id % 2 = 0;
        SELECT g, count(*) AS n FROM evens JOIN stock_of_{table} USING (id, g) GROUP BY g ORDER BY g;
        SELECT id FROM {table} ORDER BY id
    """
    answer = _query(jobs, text, limit=2)
    assert [(item.columns, item.rows, item.more) for item in answer.results] == [
        (("g", "n"), [(0, 166), (1, 166)], True), (("id",), [(1,), (2,)], True),
    ]  # fmt: skip
    answer = _query(jobs, f"SELECT * FROM {table} WHERE id < 5;", output=ExportOptions(str(tmp_path / "out")))
    assert (answer.summary.rows, answer.results) == (4, [])
    assert jobs.source.spark.read.parquet(str(tmp_path / "out")).count() == 4
    with pytest.raises(JobError, match=r"(?i)table or view .*nowhere"):
        _query(jobs, "SELECT * FROM nowhere")
    with pytest.raises(JobError, match='no table in the tablespace "other"'):
        _query(jobs, f"SELECT * FROM {table}", tablespace="other")


def test_the_commands(private_shoal: ShoalServer, tmp_path: pathlib.Path) -> None:
    """Also: from a backup, without the server."""
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE sold (id int PRIMARY KEY, city text)")
        connection.execute("INSERT INTO sold SELECT i, 'city ' || i % 2 FROM generate_series(1, 10) i")
        connection.execute(f"SELECT shoal_backup('file://{tmp_path}/backup')")
        connection.execute("DELETE FROM sold WHERE id > 5")
    report = tmp_path / "report.sql"
    report.write_text("SELECT city, count(*) AS n FROM sold GROUP BY city ORDER BY city;")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "shoal", "pipeline", *arguments, "--master", "local[2]"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("query", str(report), "--dsn", private_shoal.dsn)
    assert shown.splitlines()[:3] == ["city    n", "city 0  2", "city 1  3"] and "lsn: " in shown
    past = json.loads(run("query", str(report), "--from-checkpoint", str(tmp_path / "backup"), "--json"))
    assert past["results"] == [{"columns": ["city", "n"], "rows": [["city 0", 5], ["city 1", 5]]}]
    text = run("export", "sold", str(tmp_path / "out"), "--format", "csv", "--files", "1", "--dsn", private_shoal.dsn)
    assert text.startswith("export: 5 rows, ")
    (file,) = (tmp_path / "out").glob("*.csv")
    assert sorted(file.read_text().splitlines()) == [
        "1,city 1",
        "2,city 0",
        "3,city 1",
        "4,city 0",
        "5,city 1",
        "id,city",
    ]
