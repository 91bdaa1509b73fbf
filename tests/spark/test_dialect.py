"""Spark itself gives the values that the table of dialects says of it."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from tests.engine.sql.dialects.constructs import COMMON, REFUSED, SPARK

_TABLE = """
    CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 7 AS i, 2 AS j, -7 AS k, CAST(NULL AS INT) AS z,
        CAST(2.5 AS DECIMAL(10,2)) AS n, CAST(0.3 AS DECIMAL(10,2)) AS m, CAST(2.5 AS DOUBLE) AS f, 'Hello' AS s,
        'a_b%c' AS e, CAST(NULL AS STRING) AS o, DATE '2024-01-31' AS d, DATE '2024-03-01' AS c,
        TIMESTAMP_NTZ '2024-02-29 13:14:15' AS ts, TRUE AS y
"""


@pytest.mark.long
def test_spark_itself_gives_the_values_that_the_table_says(spark: SparkSession) -> None:
    spark.sql(_TABLE)
    cases = [(sql, expected) for sql, expected in COMMON + SPARK if expected is not REFUSED]
    assert len(cases) > 120
    wrong = []
    for sql, expected in cases:
        try:
            found = spark.sql(f"SELECT {sql} AS x FROM t").collect()[0][0]
        except Exception as error:
            wrong.append((sql, str(error)[:300]))
            continue
        if isinstance(expected, int | float) and isinstance(found, int | float | Decimal):
            same = abs(float(found) - float(expected)) < 1e-9
        elif isinstance(expected, datetime.datetime) and isinstance(found, datetime.datetime):
            same = found.replace(tzinfo=None) == expected
        else:
            same = found == expected
        if not same:
            wrong.append((sql, repr(found)))
    spark.catalog.dropTempView("t")
    assert wrong == []
