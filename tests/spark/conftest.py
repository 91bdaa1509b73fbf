"""One local Spark session for all tests of this folder, and the two servers that every script runs against."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

from tests.oracle import PostgresServer
from tests.server import ROOT, ShoalServer

JDBC_DRIVER = pathlib.Path("/usr/share/java/postgresql.jar")
DRIVER_CLASS = "org.postgresql.Driver"
# A session of many small jobs: most of its time would go into compiling what runs once, by Java and by Spark. The
# commands and programs that tests marked `long` start run with Spark's defaults.
CHEAP_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2] with Debian's JDBC driver. Its workers find `shoal_spark` as an installed package would be found."""
    if not JDBC_DRIVER.exists():
        pytest.skip("libpostgresql-jdbc-java is not installed")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    session = (
        SparkSession.builder.master("local[2,4]")  # a task that fails is run again
        .appName("shoal tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", str(JDBC_DRIVER))
        .config("spark.driver.extraJavaOptions", CHEAP_JAVA)
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.python.authenticate.socketTimeout", "300s")  # its workers start beside other tests
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", "/nonexistent/no-table-is-kept-by-spark-itself")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@dataclass(frozen=True)
class Side:
    """One of the servers, as a script sees it."""

    spark: SparkSession
    name: str
    dsn: str
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=postgres"

    def run(self, *statements: str) -> None:
        """Statements on a connection of their own, one by one."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    def reader(self, **options: object) -> DataFrameReader:
        reader = self.spark.read.format("jdbc").option("url", self.url).option("driver", DRIVER_CLASS)
        return _with(reader, options)

    def read(self, table: str, **options: object) -> DataFrame:
        return self.reader(dbtable=table, **options).load()

    def writer(self, frame: DataFrame, table: str, **options: object) -> DataFrameWriter:
        writer = (
            frame.write.format("jdbc").option("url", self.url).option("driver", DRIVER_CLASS).option("dbtable", table)
        )
        return _with(writer, options)


def _with(maker: Any, options: dict[str, object]) -> Any:
    for name, value in options.items():
        maker = maker.option(name, str(value))
    return maker


@pytest.fixture(scope="session")
def sides(spark: SparkSession, shoal: ShoalServer, postgres_server: PostgresServer) -> list[Side]:
    """PostgreSQL first: what it gives is what is expected."""
    return [
        Side(spark, "postgres", postgres_server.dsn, postgres_server.port),
        Side(spark, "shoal", shoal.dsn, shoal.port),
    ]


Script = Callable[[Side], Any]


@pytest.fixture
def same(sides: list[Side]) -> Callable[[Script], Any]:
    """Runs a script on both servers, compares what it returns, and returns that."""

    def run(script: Script) -> Any:
        expected, found = (script(side) for side in sides)
        assert found == expected
        return expected

    return run
