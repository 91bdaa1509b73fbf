"""The data source `shoal`: what it reads and writes is what JDBC and SQL see; jobs that fail leave nothing."""

from __future__ import annotations

import datetime
import pathlib
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from shoal_spark import ShoalDataSource, moment, register_tables
from tests.samples import some
from tests.server import ShoalServer
from tests.spark.conftest import Side
from tests.spark.test_jdbc import TYPES, UNICODE, VALUES, frame_of_all_types

FAILURES = (PySparkException, Py4JJavaError)


class Shoal(Side):
    """The server, by the data source as well."""

    @property
    def place(self) -> str:
        return f"postgresql://postgres:secret-word@127.0.0.1:{self.port}/postgres"

    def load(self, table: str | None = None, **options: object) -> DataFrame:
        reader = self.spark.read.format("shoal").option("url", self.place)
        if table is not None:
            reader = reader.option("dbtable", table)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def save(self, frame: DataFrame, table: str, mode: str = "append", **options: object) -> None:
        writer = frame.write.format("shoal").option("url", self.place).option("dbtable", table)
        for name, value in options.items():
            writer = writer.option(name, str(value))
        writer.mode(mode).save()

    def nothing_staged(self) -> bool:
        """Whether the role could open all the stages that it may have."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            tokens = []
            try:
                for _ in range(64):
                    tokens.append(connection.execute("SELECT shoal_stage()").fetchone())
            except psycopg.errors.ConfigurationLimitExceeded:
                return False
            finally:
                for token in tokens:
                    connection.execute("SELECT shoal_drop_stage(%s)", token)
        return True


@pytest.fixture(scope="session")
def source(spark: SparkSession, shoal: ShoalServer) -> Shoal:
    spark.dataSource.register(ShoalDataSource)
    return Shoal(spark, "shoal", shoal.dsn, shoal.port)


@pytest.fixture(scope="module")
def numbers(source: Shoal) -> str:
    source.run(
        "DROP TABLE IF EXISTS many",
        "CREATE TABLE many (id int PRIMARY KEY, g int, v numeric(10, 2), x float8, t text, d date, ts timestamp,"
        " o bool)",
        "INSERT INTO many SELECT i, i % 7, i / 4.0, CASE WHEN i % 11 > 0 THEN i * 1.5 END, 'näme_' || i % 50,"
        " date '2024-01-01' + i % 400, timestamp '2024-01-01' + i * interval '1 hour', i % 2 = 0"
        " FROM generate_series(1, 20000) i",
    )
    return "many"


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_types_are_those_of_jdbc_where_it_is_exact(source: Shoal) -> None:
    source.run("DROP TABLE IF EXISTS types", TYPES, *VALUES)
    frame = source.load("types")
    kinds = dict(frame.dtypes)
    stock = dict(source.read("types").dtypes)
    other = {name for name in kinds if kinds[name] != stock[name]}
    assert {"id", "i8", "n", "n2", "t", "by", "d", "tsz", "ai", "at", "an"}.isdisjoint(other)
    allowed = {"tm", "tmz", "ts", "ats", "atm", "bt", "b1", "vb", "o"}  # JDBC: timestamps, booleans, bytes, decimals
    assert other <= allowed, {name: (kinds[name], stock[name]) for name in other - allowed}
    rows = {row["id"]: row for row in frame.collect()}
    assert (rows[1]["n2"], rows[1]["ai"], rows[1]["u"]) == (
        Decimal("2.345"), [1, 2, None], "00112233-4455-6677-8899-aabbccddeeff",
    )  # fmt: skip
    assert rows[1]["ts"] == datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
    assert all(value is None for name, value in rows[2].asDict().items() if name != "id")


def test_a_table_in_parts_is_whole(source: Shoal, numbers: str) -> None:
    expected = sorted(map(repr, source.read(numbers).where("ts is not null").drop("ts").collect()))
    for parts in (1, 3, 8):
        frame = source.load(numbers, numPartitions=parts)
        assert frame.rdd.getNumPartitions() == parts
        assert sorted(map(repr, frame.drop("ts").collect())) == expected


def test_queries_and_bounds(source: Shoal, numbers: str) -> None:
    grouped = source.load(query=f"SELECT g, count(*) AS n, sum(v) AS s FROM {numbers} GROUP BY g;")
    assert sum(row["n"] for row in grouped.collect()) == 20000
    for column, low, high in (
        ("id", 5000, 15000),
        ("d", "2024-02-01", "2024-12-01"),
        ("ts", "2024-02-01", "2024-06-01"),
    ):
        cut = {"partitionColumn": column, "lowerBound": low, "upperBound": high, "numPartitions": 4}
        frame = source.load(f"(SELECT * FROM {numbers}) AS q", **cut)
        assert frame.rdd.getNumPartitions() == 4
        assert frame.agg(f.count("*"), f.sum("id")).collect() == [Row(20000, 200010000)]


def test_only_the_columns_of_a_given_schema_are_read(source: Shoal, numbers: str) -> None:
    frame = (
        source.spark.read.format("shoal")
        .schema("t string, id int")
        .option("url", source.place)
        .option("dbtable", numbers)
    )
    assert frame.load().where("id = 7").collect() == [Row(t="näme_7", id=7)]


FILTERS: dict[str, Callable[[DataFrame], Any]] = {
    "comparison": lambda n: (n.id > 100) & (n.g == 3) & (n.v <= Decimal("500.25")),
    "texts": lambda n: n.t.startswith("näme_1") & n.t.endswith("2") & n.t.contains("e_"),
    "wildcards are plain": lambda n: n.t.contains("%") | n.t.startswith("n_me"),
    "in": lambda n: n.id.isin(1, 5, 9, 20001) & n.t.isin("näme_5", "näme_9"),
    "not": lambda n: ~n.g.isin(1, 2) & ~(n.id > 30),
    "nulls": lambda n: n.x.isNull() & n.t.isNotNull() & (n.id < 100),
    "null-safe": lambda n: n.x.eqNullSafe(None) & (n.id < 50),
    "dates": lambda n: (n.d >= datetime.date(2024, 12, 30)) & (n.ts < datetime.datetime(2024, 6, 1)),
    "booleans": lambda n: n.o & (n.id <= 10),
    "floats": lambda n: (n.x > 29990.5) & (n.x < float("inf")),
    "quotes": lambda n: n.t != "it's",
    "left to Spark": lambda n: (n.id % 1000 == 0) | (n.g > 100),
}


@pytest.mark.parametrize("case", some(FILTERS, 3))
def test_filters_mean_the_same_there_and_here(source: Shoal, numbers: str, case: str) -> None:
    """With and without push-down; what is pushed no longer stands in the plan."""
    plain = source.load(numbers, pushDownPredicate=False)
    expected = sorted(map(repr, plain.where(FILTERS[case](plain)).collect()))
    source.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = source.load(numbers)
        assert sorted(map(repr, frame.where(FILTERS[case](frame)).collect())) == expected
    finally:
        source.spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_read_sees_one_moment(source: Shoal) -> None:
    """Every row changes in each transaction, while parts are read one after the other."""
    source.run(
        "DROP TABLE IF EXISTS moving",
        "CREATE TABLE moving (id int PRIMARY KEY, v int)",
        "INSERT INTO moving SELECT i, 0 FROM generate_series(1, 30000) i",
    )
    frame = source.load("moving", numPartitions=6)

    def change(part: int) -> None:
        with psycopg.connect(source.dsn, autocommit=True) as connection:
            connection.execute("UPDATE moving SET v = v + 1")

    dsn = source.dsn

    def change_in_task(batches: Any) -> Any:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("UPDATE moving SET v = v + 1")
        yield from batches

    seen = frame.mapInArrow(change_in_task, frame.schema).groupBy("v").count().collect()
    assert [row["count"] for row in seen] == [30000]
    change(0)
    with moment(source.place) as snapshot:
        change(0)
        first = source.load("moving", snapshot=snapshot, numPartitions=2).agg(f.max("v"), f.min("v")).collect()
        change(0)
        assert source.load("moving", snapshot=snapshot).agg(f.max("v"), f.min("v")).collect() == first
    with pytest.raises(FAILURES, match="the snapshot of this read no longer exists"):
        source.load("moving", snapshot=snapshot).collect()


def test_numbers_that_do_not_fit_are_errors(source: Shoal) -> None:
    source.run(
        "DROP TABLE IF EXISTS wide", "CREATE TABLE wide (id int, n numeric)", "INSERT INTO wide VALUES (1, 'NaN')"
    )
    with pytest.raises(FAILURES, match='column "n" has a value'):
        source.load("wide").collect()


# ---- writing ---------------------------------------------------------------------------------------------------------


def test_every_type_is_written(source: Shoal) -> None:
    source.run("DROP TABLE IF EXISTS written", "DROP TABLE IF EXISTS by_jdbc")
    frame = frame_of_all_types(source)
    source.save(frame.repartition(3), "written")
    source.writer(frame, "by_jdbc").save()
    rows = source.rows("SELECT * FROM written ORDER BY id")
    assert len(rows) == 299 and rows[0][8] == UNICODE
    assert rows == source.rows("SELECT * FROM by_jdbc ORDER BY id")
    assert source.nothing_staged()


def test_append_and_overwrite(source: Shoal) -> None:
    source.run("DROP TABLE IF EXISTS modes", "CREATE TABLE modes (id bigint PRIMARY KEY, t text DEFAULT 'none')")
    source.save(source.spark.range(0, 20000, 1, 4), "modes")
    source.save(source.spark.range(20000, 20010), "modes")
    assert source.rows("SELECT count(*), min(t) FROM modes") == [(20010, "none")]
    source.save(source.spark.range(5, 8), "modes", "overwrite")
    assert source.rows("SELECT id FROM modes ORDER BY 1") == [(5,), (6,), (7,)]
    source.save(source.spark.range(0), "modes", "overwrite")
    assert source.rows("SELECT count(*) FROM modes") == [(0,)]


def test_upsert_and_delete(source: Shoal) -> None:
    source.run(
        "DROP TABLE IF EXISTS fish",
        "CREATE TABLE fish (a int, b text, n int, kept text DEFAULT 'x', PRIMARY KEY (b, a))",
        "INSERT INTO fish SELECT i, 'b' || i, 0, 'old' FROM generate_series(1, 30000) i",
    )
    changes = source.spark.range(29990, 30020).selectExpr("concat('b', id) as b", "cast(id as int) as a", "7 as n")
    source.save(changes.repartition(2), "fish", writeMode="upsert")
    assert source.rows("SELECT kept, count(*) FROM fish WHERE n = 7 GROUP BY 1 ORDER BY 1") == [("old", 11), ("x", 19)]
    source.save(changes.where("a > 30000").drop("n").repartition(2), "fish", writeMode="delete")
    assert source.rows("SELECT count(*), max(a) FROM fish") == [(30000, 30000)]
    twice = changes.limit(1).union(changes.limit(1))
    with pytest.raises(FAILURES, match="cannot affect row a second time"):
        source.save(twice, "fish", writeMode="upsert")
    with pytest.raises(FAILURES, match='needs the key\'s column "b"'):
        source.save(changes.drop("b"), "fish", writeMode="upsert")


@pytest.mark.long
def test_tasks_that_fail_write_each_row_once(source: Shoal, tmp_path: pathlib.Path) -> None:
    """Each partition's first two attempts fail after rows have gone out; the third one counts."""
    source.run("DROP TABLE IF EXISTS once", "CREATE TABLE once (id bigint)")
    place = str(tmp_path)

    def fail_twice(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        with open(f"{place}/{context.partitionId()}-{context.attemptNumber()}", "w"):
            pass
        if context.attemptNumber() < 2:
            raise ValueError("an injected failure")

    frame = source.spark.range(0, 50000, 1, 4)
    source.save(frame.mapInArrow(fail_twice, frame.schema), "once")
    assert len(list(tmp_path.iterdir())) == 12
    assert source.rows("SELECT count(*), count(DISTINCT id) FROM once") == [(50000, 50000)]


@pytest.mark.long
def test_a_job_that_fails_leaves_nothing(source: Shoal) -> None:
    source.run(
        "DROP TABLE IF EXISTS none", "DROP TABLE IF EXISTS made", "CREATE TABLE none (id bigint CHECK (id <> 150))"
    )
    source.run("INSERT INTO none VALUES (1)")
    frame = source.spark.range(0, 200, 1, 4)

    def fail(batches: Any) -> Any:
        yield from batches
        raise ValueError("an injected failure")

    failing = frame.mapInArrow(fail, frame.schema)
    for mode in ("append", "overwrite"):
        with pytest.raises(FAILURES, match="injected failure"):
            source.save(failing, "none", mode)
        with pytest.raises(FAILURES, match="violates check constraint"):
            source.save(frame, "none", mode)
    assert source.rows("SELECT id FROM none") == [(1,)]
    with pytest.raises(FAILURES, match="injected failure"):
        source.save(failing, "made")
    assert source.rows("SELECT to_regclass('made')") == [(None,)]
    assert source.nothing_staged()


def test_what_does_not_fit_names_the_column_and_both_types(source: Shoal) -> None:
    source.run("DROP TABLE IF EXISTS strict", "CREATE TABLE strict (id int PRIMARY KEY, d date, u uuid)")
    spark = source.spark
    with pytest.raises(FAILURES, match=r'column "id" is of type integer but the data .* string .*\(string in Spark\)'):
        source.save(spark.createDataFrame([("1",)], "id string"), "strict")
    with pytest.raises(FAILURES, match=r'column "d" is of type date .*timestamp_ntz in Spark'):
        source.save(spark.createDataFrame([(datetime.datetime(2024, 1, 1),)], "d timestamp_ntz"), "strict")
    with pytest.raises(FAILURES, match='column "other" of relation "strict" does not exist'):
        source.save(spark.createDataFrame([(1,)], "other int"), "strict")
    with pytest.raises(FAILURES, match='column "m" is of Spark\'s type map'):
        source.save(spark.createDataFrame([({"a": 1},)], "m map<string, int>"), "no_such_table")
    with pytest.raises(FAILURES, match="integer out of range"):
        source.save(spark.createDataFrame([(1 << 40,)], "id long"), "strict")
    with pytest.raises(FAILURES, match="invalid input syntax for type uuid"):
        source.save(spark.createDataFrame([(1, "no")], "id int, u string"), "strict")
    source.save(spark.createDataFrame([(1, "00112233-4455-6677-8899-aabbccddeeff")], "id long, u string"), "strict")
    assert source.rows("SELECT count(*) FROM strict") == [(1,)]


# ---- options, secrets, SQL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dbtable": "t"}, '"url" is missing'),
        ({"url": "postgresql://h/d"}, '"dbtable" or the option "query"'),
        ({"url": "nonsense://secret-word@h", "dbtable": "t"}, '"url" is none'),
        ({"url": "postgresql://h/d", "dbtable": "t", "numPartitons": "3"}, 'unknown option "numpartitons"'),
        ({"url": "postgresql://h/d", "dbtable": "t", "numPartitions": "x"}, '"numPartitions" must be a whole number'),
        ({"url": "postgresql://h/d", "dbtable": "t", "partitionColumn": "x"}, "go together"),
        ({"url": "postgresql://h/d", "dbtable": "t", "writeMode": "x"}, '"writeMode" must be one of'),
        (
            {"url": "postgresql://h/d", "dbtable": "t", "snapshot": "2020-01-01"},
            '"snapshot" must be a snapshot that moment',
        ),
    ],
)
def test_options_that_are_wrong(source: Shoal, options: dict[str, str], said: str) -> None:
    with pytest.raises(FAILURES, match=re.escape(said)) as error:
        source.spark.read.format("shoal").options(**options).load()
    assert "secret-word" not in str(error.value)


def test_passwords_are_shown_nowhere(
    source: Shoal, numbers: str, capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    frame = source.load(numbers, numPartitions=2).where("id > 5")
    frame.explain("extended")
    texts = [
        frame._jdf.queryExecution().toString(),
        frame._jdf.queryExecution().logical().toString(),
        str(frame.rdd.toDebugString()),
    ]
    source.spark.sparkContext.setLogLevel("INFO")
    try:
        frame.count()
        with pytest.raises(FAILURES) as error:
            source.load("no_such_table")
        texts.append(str(error.value))
        wrong = source.place.replace(str(source.port), "1")
        with pytest.raises(FAILURES) as error:
            source.spark.read.format("shoal").option("url", wrong).option("dbtable", "t").load()
        texts.append(str(error.value))
        source.run("DROP TABLE IF EXISTS secret_target")
        source.save(source.spark.range(3), "secret_target")
    finally:
        source.spark.sparkContext.setLogLevel("OFF")
    texts += capfd.readouterr()
    assert all("secret-word" not in text for text in texts)
    assert any("no_such_table" in text for text in texts)


def test_tables_by_sql(source: Shoal, numbers: str) -> None:
    spark = source.spark
    spark.sql("DROP TABLE IF EXISTS of_spark")
    spark.sql(f"CREATE TABLE of_spark USING shoal OPTIONS (url '{source.place}', dbtable '{numbers}')")
    try:
        given = f"WITH (url = '{source.place}', dbtable = '{numbers}')"
        assert spark.sql(f"SELECT count(*) AS n FROM of_spark {given} WHERE g = 3").collect() == [Row(n=2857)]
        with pytest.raises(FAILURES, match="Spark hands the options of a stored table to no data source in Python"):
            spark.sql("SELECT * FROM of_spark").collect()
        spark.sql(f"CREATE TEMPORARY VIEW passing USING shoal OPTIONS (url '{source.place}', dbtable '{numbers}')")
        assert spark.sql("SELECT count(*) AS n FROM passing WHERE g = 3").collect() == [Row(n=2857)]
        assert "secret-word" not in str(spark.sql("DESCRIBE EXTENDED of_spark").collect())
        assert "secret-word" not in str(spark.sql("SHOW CREATE TABLE of_spark").collect())
    finally:
        spark.sql("DROP TABLE of_spark")


def test_all_tables_as_views(source: Shoal) -> None:
    source.run(
        "DROP SCHEMA IF EXISTS lake CASCADE", "CREATE SCHEMA lake",
        'CREATE TABLE lake.pond (id int PRIMARY KEY, "Odd Name" text)',
        "INSERT INTO lake.pond VALUES (1, 'a'), (2, 'b')",
        "CREATE VIEW lake.deep AS SELECT * FROM lake.pond WHERE id > 1",
    )  # fmt: skip
    assert register_tables(source.spark, source.place, schema="lake", prefix="l_") == ["l_deep", "l_pond"]
    joined = source.spark.sql("SELECT p.`Odd Name` FROM l_pond p JOIN l_deep d USING (id)").collect()
    assert joined == [Row(**{"Odd Name": "b"})]
