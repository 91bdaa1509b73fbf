"""Stock Spark with the stock PostgreSQL JDBC driver: what it gets of PostgreSQL it gets of Shoal, script by script."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql import types as t

from tests.samples import some
from tests.spark.conftest import Script, Side

Same = Callable[[Script], Any]

UNICODE = "Grüße, 数据 🐟 'q' \"d\" \\b \t\n e\u0301 %s ?"

TYPES = """
CREATE TABLE types (
    id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, n2 numeric(12, 3),
    n3 numeric(38, 10), n4 numeric(5), t text, v varchar(40), c char(7), by bytea, d date, tm time, tmz timetz,
    ts timestamp, tsz timestamptz, u uuid, j json, jb jsonb, iv interval, bt bit(3), b1 bit, vb varbit(9), o oid,
    p point, ln line, ls lseg, bx box, pa path, po polygon, ci circle, inet inet, mac macaddr, nm name,
    ch "char", ai int[], a2 int2[], a8 int8[], at text[], av varchar(9)[], ab bool[], af float8[], a4 float4[],
    an numeric(9, 2)[], ad date[], ats timestamp[], atz timestamptz[], au uuid[], atm time[], r int4range
);
"""
VALUES = (
    """INSERT INTO types VALUES (1, true, 1, 2, 3, 1.5, 2.25, 1.10, 2.345, 3.0000000001, 77, 'text', 'var', 'ch',
    '\\x00ff10', '2024-02-29', '12:34:56.789', '12:34:56+02', '2024-02-29 23:59:59.999999',
    '2024-02-29 23:59:59.999999+00', '00112233-4455-6677-8899-aabbccddeeff', '{"a": 1}', '{"a": [1, null]}',
    '1 year 2 days 03:04:05.6', '101', '1', '10101', 42, '(1,2)', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)',
    '((0,0),(1,1))', '((0,0),(1,1),(1,0))', '<(0,0),1>', '10.0.0.1', '08:00:2b:01:02:03', 'name', 'x',
    '{1,2,NULL}', '{1}', '{3}', '{a,"b c",NULL}', '{x}', '{t,f}', '{1.5}', '{2.5}', '{1.25}', '{2024-02-29}',
    '{2024-02-29 01:02:03}', '{2024-02-29 01:02:03+00}', '{00112233-4455-6677-8899-aabbccddeeff}', '{01:02:03}',
    '[1,5)')""",
    "INSERT INTO types (id) VALUES (2)",
    """INSERT INTO types (id, b, i2, i4, i8, f4, f8, n, t, d, ts, ai) VALUES (3, false, -32768, -2147483648,
    -9223372036854775808, 'NaN', '-Infinity', -0.000000000000000001, 'Grüße 数据 🐟', '1969-12-31',
    '1969-12-31 23:59:59.5', '{}')""",
)


def frame_of_all_types(side: Side) -> DataFrame:
    """One column of every type that Spark writes by JDBC."""
    schema = t.StructType(
        [
            t.StructField("id", t.IntegerType(), False),
            t.StructField("b", t.BooleanType()),
            t.StructField("i1", t.ByteType()),
            t.StructField("i2", t.ShortType()),
            t.StructField("i8", t.LongType()),
            t.StructField("f4", t.FloatType()),
            t.StructField("f8", t.DoubleType()),
            t.StructField("n", t.DecimalType(20, 4)),
            t.StructField("s", t.StringType()),
            t.StructField("by", t.BinaryType()),
            t.StructField("d", t.DateType()),
            t.StructField("ts", t.TimestampType()),
            t.StructField("tn", t.TimestampNTZType()),
            t.StructField("ai", t.ArrayType(t.IntegerType())),
            t.StructField("al", t.ArrayType(t.LongType())),
            t.StructField("as", t.ArrayType(t.StringType())),
            t.StructField("ad", t.ArrayType(t.DoubleType())),
            t.StructField("ab", t.ArrayType(t.BooleanType())),
        ]
    )
    moment = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
    rows: list[tuple[Any, ...]] = [
        (
            *(1, True, 7, -3, 1 << 62, 1.5, -2.25, Decimal("123.4500"), UNICODE, bytearray(b"\x00\xff")),
            *(moment.date(), moment.replace(tzinfo=datetime.UTC), moment),
            *([1, None, 3], [1 << 40], ["a", 'b"c', None, ""], [1.5], [True, False]),
        ),
        (2, *(None,) * 17),
    ]
    rows += [
        (
            *(
                i,
                i % 2 == 0,
                i % 100,
                i,
                i * 1000,
                i / 2,
                i / 4,
                Decimal(i) / 4,
                f"row {i}",
                bytearray(str(i), "ascii"),
            ),
            *(moment.date(), moment.replace(tzinfo=datetime.UTC), moment, [i], [i], [str(i)], [i / 2], [i % 3 == 0]),
        )
        for i in range(3, 300)
    ]
    return side.spark.createDataFrame(rows, schema)


def _error(action: Callable[[], object]) -> str:
    """What the server said, or else Spark, without what differs by server."""
    with pytest.raises((PySparkException, Py4JJavaError)) as error:
        action()
    text = str(error.value)
    said = re.search(r"ERROR: .*", text)
    return said[0] if said else re.search(r"\[[A-Z_.]+\].*|.*", text)[0]  # type: ignore[index]


def _readable(frame: DataFrame, names: list[str]) -> dict[str, Any]:
    """What each of the columns reads as, or the class of the error that Spark has for it (arrays of timestamps from
    this driver): halves of what fails are read again, so that a job goes for each error and not for each column."""
    try:
        rows = frame.select("id", *names).orderBy("id").collect()
        return {name: [repr(row[name]) for row in rows] for name in names}
    except (PySparkException, Py4JJavaError) as error:
        if len(names) == 1:
            return {names[0]: re.search(r"\[[A-Z_.]+\]", str(error))[0]}  # type: ignore[index]
        middle = len(names) // 2
        return _readable(frame, names[:middle]) | _readable(frame, names[middle:])


def test_types_are_inferred_and_read(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS types", TYPES, *VALUES)
        frame = side.read("types")
        return {"": frame.schema.json()} | _readable(frame, [name for name in frame.columns if name != "id"])

    seen = same(script)
    assert "timestamp" in seen[""] and len(seen["jb"]) == 3 and "🐟" in seen["t"][2]


def test_timestamps_without_zone_as_such(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS types", TYPES, *VALUES)
        frame = side.read("types", preferTimestampNTZ=True).select("ts", "tsz", "ats")
        return frame.schema.json(), frame.collect()

    same(script)


@pytest.mark.parametrize(
    ("batch", "rewritten"), some([(7, True), (1, False), (7, False), (1000, False), (1000, True)], 3)
)
def test_every_type_is_written(same: Same, batch: int, rewritten: bool) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS written")
        frame = frame_of_all_types(side)
        side.writer(frame, "written", batchsize=batch, reWriteBatchedInserts=rewritten).save()
        back = side.read("written").orderBy("id")
        declared = side.rows(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
            " WHERE attrelid = 'written'::regclass AND attnum > 0 ORDER BY attnum"
        )
        return declared, back.schema.json(), back.collect()

    declared, _, rows = same(script)
    assert len(rows) == 299 and rows[0]["s"] == UNICODE and ("i1", "smallint", False) in declared


def test_save_modes(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS modes")
        seen: list[Any] = []

        def write(mode: str, first: int, **options: object) -> None:
            frame = side.spark.range(first, first + 3).withColumn("t", f.concat(f.lit("x"), f.col("id")))
            side.writer(frame, "modes", **options).mode(mode).save()
            seen.append(sorted(side.rows("SELECT * FROM modes")))

        write("errorifexists", 0)
        seen.append(_error(lambda: write("errorifexists", 10)))
        write("ignore", 20)
        write("append", 30)
        before = side.rows("SELECT 'modes'::regclass::oid")
        write("overwrite", 40, truncate=True)
        seen.append(before == side.rows("SELECT 'modes'::regclass::oid"))
        write("overwrite", 50)
        seen.append(before == side.rows("SELECT 'modes'::regclass::oid"))
        write("overwrite", 60, truncate=True, cascadeTruncate=True)
        return seen

    seen = same(script)
    assert seen[-2] is False


def test_created_columns_have_the_types_asked_for(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS declared")
        frame = side.spark.createDataFrame([Row(id=1, name="a", j='{"a": 1}')])
        side.writer(frame, "declared", createTableColumnTypes="name VARCHAR(64), id SMALLINT").save()
        return side.read("declared").schema.json(), side.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'declared'::regclass AND attnum > 0 ORDER BY attnum"
        )

    same(script)


def test_strings_are_cast_by_the_server(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS cast_by", "CREATE TABLE cast_by (id int, u uuid, j jsonb, n numeric, a inet)")
        frame = side.spark.createDataFrame(
            [(1, "00112233-4455-6677-8899-aabbccddeeff", '{"a":1}', Decimal("1.5"), "10.0.0.1"), (2, *(None,) * 4)],
            "id int, u string, j string, n decimal(10, 2), a string",
        )
        side.writer(frame, "cast_by", stringtype="unspecified").mode("append").save()
        return side.read("cast_by").orderBy("id").collect()

    same(script)


def test_errors_are_those_of_the_server(same: Same) -> None:
    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS strict", "CREATE TABLE strict (id bigint PRIMARY KEY CHECK (id < 100), t text)")
        twice = side.spark.createDataFrame([(1, "a"), (1, "b")], "id long, t string").coalesce(1)
        seen = [_error(lambda: side.writer(twice, "strict").mode("append").save())]
        seen.append(_error(lambda: side.writer(side.spark.range(200, 201), "strict").mode("append").save()))
        seen.append(_error(lambda: side.read("no_such_table")))
        seen.append(side.rows("SELECT count(*) FROM strict"))
        return seen

    same(script)


def _numbers(side: Side) -> None:
    side.run(
        "DROP TABLE IF EXISTS numbers",
        "CREATE TABLE numbers (id int PRIMARY KEY, g int, v numeric(10, 2), f float8, t text, d date, ts timestamptz)",
        "INSERT INTO numbers SELECT i, i % 7, i / 4.0, CASE WHEN i % 11 > 0 THEN i * 1.5 END, 'näme_' || i % 50,"
        " date '2024-01-01' + i % 400, timestamptz '2024-01-01 00:00+00' + i * interval '1 hour'"
        " FROM generate_series(1, 6000) i",
    )


def test_partitioned_reads(same: Same) -> None:
    def script(side: Side) -> Any:
        _numbers(side)
        seen = []
        for column, low, high in (
            ("id", 1, 6000),
            ("d", "2024-01-01", "2025-02-03"),
            ("ts", "2024-01-01 00:00:00", "2024-09-07 00:00:00"),
        ):
            options = {"partitionColumn": column, "lowerBound": low, "upperBound": high, "numPartitions": 4}
            frame = side.read("numbers", fetchsize=100, **options)
            seen.append((frame.rdd.getNumPartitions(), sorted(map(repr, frame.collect()))))
        return seen

    assert same(script)[0][0] == 4


def test_queries_and_fetch_sizes(same: Same) -> None:
    def script(side: Side) -> Any:
        _numbers(side)
        query = "SELECT g, count(*) AS n, sum(v) AS s, avg(f) AS a, max(t) AS m FROM numbers GROUP BY g"
        seen: list[Any] = [
            sorted(map(repr, side.reader(query=query, fetchsize=size).load().collect())) for size in (0, 2)
        ]
        frame = side.read("(SELECT id, t FROM numbers WHERE g = 3) AS part", fetchsize=10)
        seen += [frame.count(), frame.schema.json()]
        statement = side.reader(query="SELECT * FROM c", prepareQuery="WITH c AS (SELECT 1 AS one)").load()
        return [*seen, statement.collect()]

    same(script)


PUSHED = {
    "filters": lambda n: n.where((n.id > 100) & (n.g == 3) & n.f.isNotNull() & n.t.startswith("näme_1")).select(
        "id", "t"
    ),
    "in, or, not": lambda n: n.where(n.id.isin(1, 5, 9) | ~(n.g < 6) & (n.id <= 50)).select("id"),
    "patterns": lambda n: n.where(n.t.contains("e_3") & n.t.endswith("7")).select("id"),
    "null-safe": lambda n: n.where(n.f.eqNullSafe(None)).select("id"),
    "dates": lambda n: n.where((n.d >= "2024-12-30") & (n.ts < "2024-06-01")).select("id", "d", "ts"),
    "functions": lambda n: n.where((f.abs(n.id - 50) < 5) & (f.upper(n.t) != "X") & (n.v % 2 == 0)).select("id"),
    "case": lambda n: n.where(f.when(n.g > 3, n.id).otherwise(0) > 5990).select("id"),
    "arithmetic": lambda n: n.where(n.id * 2 + n.g > 11990).select("id"),
    "aggregates": lambda n: n.groupBy("g").agg(
        f.count("*").alias("n"), f.sum("v"), f.min("id"), f.max("t"), f.avg("id"), f.count("f")
    ),
    "distinct": lambda n: n.agg(f.countDistinct("t").alias("c"), f.sum("id")),
    "statistics": lambda n: n.agg(*(f.round(made("id"), 6) for made in (f.stddev_pop, f.stddev_samp, f.var_pop))),
    "limit": lambda n: n.where(n.id <= 3).limit(10),
    "top": lambda n: n.orderBy(n.id.desc()).limit(5),
    "offset": lambda n: n.orderBy("id").offset(5990).limit(5),
    "text order": lambda n: n.orderBy(n.t.desc(), "id").limit(5),
}


@pytest.mark.parametrize("case", PUSHED)
def test_what_is_pushed_down(same: Same, sides: list[Side], case: str) -> None:
    if "n" not in _made:
        for side in sides:
            _numbers(side)
        _made.add("n")

    def script(side: Side) -> Any:
        frame = PUSHED[case](side.read("numbers"))
        plan = frame._jdf.queryExecution().executedPlan().toString()
        pushed = [
            line.split("PushedFilters", 1)[-1].split("ReadSchema")[0] for line in plan.splitlines() if "Pushed" in line
        ]
        return pushed, sorted(map(repr, frame.collect()))

    same(script)


_made: set[str] = set()


def test_the_source_as_tables_of_a_catalog(same: Same) -> None:
    """Spark's JDBC catalog: schemas, tables, DDL and DML by SQL, with data source V2's push-down."""

    def script(side: Side) -> Any:
        spark, name = side.spark, f"cat_{side.name}"
        side.run("DROP SCHEMA IF EXISTS lake CASCADE")
        spark.conf.set(
            f"spark.sql.catalog.{name}", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
        )
        options = {
            "url": side.url,
            "driver": "org.postgresql.Driver",
            "pushDownAggregate": "true",
            "pushDownLimit": "true",
        }
        for option, value in options.items():
            spark.conf.set(f"spark.sql.catalog.{name}.{option}", value)
        seen: list[Any] = []

        def sql(text: str) -> None:
            seen.append(sorted(map(repr, spark.sql(text.replace("cat.", f"{name}.")).collect())))

        sql("CREATE NAMESPACE cat.lake")
        sql("CREATE TABLE cat.lake.fish (id INT NOT NULL, name STRING, weight DECIMAL(8, 3), born TIMESTAMP)")
        sql("INSERT INTO cat.lake.fish VALUES (1, 'pike', 3.5, TIMESTAMP'2024-01-01'), (2, 'perch', NULL, NULL)")
        sql("ALTER TABLE cat.lake.fish ADD COLUMNS (depth DOUBLE)")
        sql("ALTER TABLE cat.lake.fish RENAME COLUMN name TO species")
        sql("ALTER TABLE cat.lake.fish ALTER COLUMN id TYPE BIGINT")
        sql("ALTER TABLE cat.lake.fish ALTER COLUMN id DROP NOT NULL")
        sql("SELECT species, count(*), sum(weight), max(born) FROM cat.lake.fish GROUP BY species")
        sql("SELECT * FROM cat.lake.fish WHERE species LIKE 'p%' ORDER BY id LIMIT 1")
        sql("COMMENT ON NAMESPACE cat.lake IS 'waters'")
        sql("SHOW TABLES IN cat.lake")
        sql("ALTER TABLE cat.lake.fish RENAME TO lake.fishes")
        sql("DROP TABLE cat.lake.fishes")
        sql("DROP NAMESPACE cat.lake")
        seen.append(side.rows("SELECT count(*) FROM pg_namespace WHERE nspname = 'lake'"))
        return [repr(item).replace(name, "cat") for item in seen]

    same(script)


def test_a_failed_write_leaves_what_was_committed_by_other_tasks_alone(same: Same) -> None:
    """JDBC writes each partition in a transaction of its own: the others stay, as with PostgreSQL."""

    def script(side: Side) -> Any:
        side.run("DROP TABLE IF EXISTS parts", "CREATE TABLE parts (id bigint CHECK (id <> 150))")
        frame = side.spark.range(0, 200, 1, 2)
        with contextlib.suppress(Py4JJavaError):
            side.writer(frame, "parts").mode("append").save()
        return side.rows("SELECT count(*) FILTER (WHERE id >= 100) FROM parts")

    same(script)
