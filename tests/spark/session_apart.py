"""Spark in a process of its own, to be looked at or killed: `python -m tests.spark.session_apart WHAT PORT FOLDER`.

write    writes rows without end to the table `killed`
show     reads, writes and streams by both sources with a password, and writes what the UI's API tells into FOLDER
"""

from __future__ import annotations

import json
import pathlib
import sys
import urllib.request

from pyspark.sql import SparkSession

from shoal_spark import ShoalDataSource
from tests.spark.conftest import DRIVER_CLASS, JDBC_DRIVER

PASSWORD = "secret-word"
PAGES = ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true", "allexecutors")


def session(ui: bool) -> SparkSession:
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", str(JDBC_DRIVER))
        .config("spark.ui.enabled", str(ui).lower())
        .config("spark.ui.port", "0")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    made.dataSource.register(ShoalDataSource)
    return made


def write(spark: SparkSession, place: str) -> None:
    """Does not come to its end."""
    options = {"url": place, "dbtable": "killed", "stageTimeout": "2"}
    spark.range(0, 1 << 40, 1, 2).write.format("shoal").options(**options).mode("overwrite").save()


def show(spark: SparkSession, place: str, folder: pathlib.Path) -> None:
    """Everything that Spark tells of what it has done, as JSON."""
    spark.sparkContext.setLogLevel("INFO")
    shoal = {"url": place, "dbtable": "shown"}
    jdbc = {"url": f"jdbc:{place.replace(f'postgres:{PASSWORD}@', '')}", "driver": DRIVER_CLASS, "dbtable": "shown"}
    jdbc |= {"user": "postgres", "password": PASSWORD}
    for name, options in (("shoal", shoal), ("jdbc", jdbc)):
        frame = spark.read.format(name).options(**options).load()
        frame.where("id > 5").explain("extended")
        assert frame.where("id > 5").count() == 5
        spark.range(1).write.format(name).options(**{**options, "dbtable": f"by_{name}"}).mode("append").save()
    spark.sql(f"CREATE TEMPORARY VIEW v USING shoal OPTIONS (url '{place}', dbtable 'shown')")
    spark.sql("SELECT count(*) FROM v").collect()
    changes = spark.readStream.format("shoal").option("url", place).option("stream", "s").load()
    writer = changes.select("lsn").writeStream.format("shoal").option("url", place).option("dbtable", "streamed")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()
    told = {"progress": json.dumps(query.recentProgress, default=str), "status": str(query.status)}
    query.stop()
    base = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    addresses = {page: f"{base}/{page}" for page in PAGES}
    addresses["page"] = f"{spark.sparkContext.uiWebUrl}/SQL/execution/?id=0"
    for page, address in addresses.items():
        with urllib.request.urlopen(address) as answer:
            told[page] = answer.read().decode()
    (folder / "told.json").write_text(json.dumps(told))


def main() -> None:
    what, port, folder = sys.argv[1:]
    place = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
    spark = session(what == "show")
    if what == "show":
        show(spark, place, pathlib.Path(folder))
    else:
        write(spark, place)
    spark.stop()


if __name__ == "__main__":
    main()
