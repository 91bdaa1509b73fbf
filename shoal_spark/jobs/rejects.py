"""Finds bad records in their files: the number and the original text of each line.

A reader reports only the text of a bad record, or its fields. So files with bad records are read again, as lines. The
lines that equal a record, as text or field by field, are the bad ones, because equal lines have equal results. Lines
are counted within the pieces into which Spark divides files, and the counts are added up.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from shoal_spark.jobs.step_writer import Reject

_ID, _PIECE = "_shoal_id", "_shoal_piece"


def read_back(path: str) -> list[Reject]:
    """Reads the file of `write_rejects`."""
    with open(path, encoding="utf-8") as lines:
        return [
            Reject(item["file"] or "", item["line"], item["record"] or "", item["reason"])
            for item in map(json.loads, lines)
        ]


def with_lines(spark: SparkSession, rejects: Sequence[Reject], normal: Column, encoding: str = "UTF-8") -> list[Reject]:
    """The rejects with line numbers and original text, where they are found. `normal`: the text that a reader would
    report for the column `value`."""
    wanted = {item.record for item in rejects if item.line is None}
    files = sorted({item.file for item in rejects if item.line is None and item.file})
    if not files:
        return list(rejects)
    reader = spark.read.option("encoding", encoding)
    lines = reader.text([unquote(file) for file in files]).select(
        "value",
        f.col("_metadata.file_path").alias("file"),
        f.col("_metadata.file_block_start").alias(_PIECE),
        f.monotonically_increasing_id().alias(_ID),
    )
    begins = _line_offsets(lines)
    keys = spark.createDataFrame([(text,) for text in wanted], "text string")
    meant = lines.withColumn("normal", normal)
    found = meant.join(f.broadcast(keys), (meant.value == keys.text) | (meant.normal == keys.text), "left_semi")
    places: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for row in found.select("file", _PIECE, _ID, "value", "normal").collect():
        at = (begins[row["file"], row[_PIECE]] + row[_ID], row["value"])
        for text in {row["value"], row["normal"]} & wanted:
            places[row["file"], text].append(at)
    for listed in places.values():
        listed.sort(reverse=True)
    return [_with_line(item, places) for item in rejects]


def _line_offsets(lines: DataFrame) -> dict[tuple[str, int], int]:
    """The difference between a line's id and its number, by file and piece."""
    counted = lines.groupBy("file", _PIECE).agg(f.min(_ID).alias("low"), f.count("*").alias("count")).collect()
    begins: dict[tuple[str, int], int] = {}
    before: dict[str, int] = defaultdict(int)
    for row in sorted(counted, key=lambda row: (row["file"], row[_PIECE])):
        begins[row["file"], row[_PIECE]] = before[row["file"]] + 1 - row["low"]
        before[row["file"]] += row["count"]
    return begins


def _with_line(item: Reject, places: Mapping[tuple[str, str], list[tuple[int, str]]]) -> Reject:
    listed = places.get((item.file, item.record))
    if item.line is not None or not listed:
        return item
    line, text = listed.pop()
    return Reject(item.file, line, text, item.reason)


def csv_reason(record: str, columns: int, separator: str, quote: str) -> str:
    """The reason why a CSV reader rejects a record."""
    try:
        fields = next(csv.reader(io.StringIO(record), strict=True, delimiter=separator[:1], quotechar=quote[:1]), [])
    except csv.Error as error:
        return f"the record is not CSV: {error}"
    return f"the record has {len(fields)} fields, expected {columns}"


def json_reason(record: str) -> str:
    """The reason why a line is not a JSON record."""
    try:
        value = json.loads(record)
    except ValueError as error:
        return f"the line is not JSON: {error}"
    return "the line is not a JSON object" if not isinstance(value, dict) else "the record cannot be read"
