"""Reads files of one format as the rows of a table, each with its problem if it has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from shoal_spark.jobs.column_conversion import ConvertedColumn, TimeFormats, from_text, from_typed
from shoal_spark.jobs.files import FoundFiles
from shoal_spark.jobs.rejects import csv_reason, json_reason
from shoal_spark.jobs.server_access import TableColumn
from shoal_spark.jobs.step_writer import FILE, LINE, REASON, RECORD, Reject

_CORRUPT = "_shoal_corrupt"
_EMPTY = "\ue000"  # what the reader gives for "", which it would take for an empty field, and so for NULL
_OURS = ("dateformat", "timestampformat", "timestampntzformat", "inferschema", "header")


@dataclass(frozen=True)
class SourceFiles:
    """Files, and how to read them. `options`: Spark's options of the format. `has_names`: the user has named the
    columns."""

    spark: SparkSession
    format: str
    options: Mapping[str, str]
    has_names: bool = False

    def flag(self, name: str) -> bool:
        return (self.option(name) or "").lower() == "true"

    def option(self, name: str) -> str | None:
        """An option, independent of case."""
        return next((value for known, value in self.options.items() if known.lower() == name.lower()), None)

    @property
    def is_text(self) -> bool:
        return self.format != "parquet"

    def reader(self, found: FoundFiles) -> DataFrameReader:
        reader = self.spark.read.format(self.format).options(**self.options)
        return reader.option("basePath", found.base) if found.base else reader


@dataclass(frozen=True)
class Records:
    """`kinds`: the data's columns with their types in the files; `targets`: the table's column for each."""

    data: SourceFiles
    kinds: Mapping[str, t.DataType]
    targets: tuple[TableColumn, ...]

    def frame(self, found: FoundFiles) -> DataFrame:
        """The table's columns, and those of stepping.ASIDE."""
        paths = [file.path for file in found.files]
        reader = self.data.reader(found)
        if self.data.is_text:
            fields = [*self._schema().fields, t.StructField(_CORRUPT, t.StringType())]
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _CORRUPT)
            if self.data.format == "csv" and self.data.option("emptyValue") is None:
                reader = reader.option("emptyValue", _EMPTY)
            reader = reader.option("columnPruning", "false")  # every record's fields are counted
            reader = reader.option("enforceSchema", str(self.data.has_names).lower()).schema(t.StructType(fields))
        frame = reader.load(paths)
        line = f.lit(None).cast("long") if self.data.is_text else f.col("_metadata.row_index") + 1
        fitted = [
            self._fit(target, _column(name), kind)
            for (name, kind), target in zip(self.kinds.items(), self.targets, strict=True)
        ]
        problems = [item.problem for item in fitted if item.problem is not None]
        corrupt = _column(_CORRUPT) if self.data.is_text else f.lit(None).cast("string")
        reason = f.coalesce(f.when(corrupt.isNotNull(), f.lit("")), *problems, f.lit(None).cast("string"))
        values = [item.value.alias(target.name) for item, target in zip(fitted, self.targets, strict=True)]
        return frame.select(
            *values,
            reason.alias(REASON),
            f.when(reason.isNotNull(), f.coalesce(corrupt, self._record_text())).alias(RECORD),
            f.col("_metadata.file_path").alias(FILE),
            line.alias(LINE),
        )

    def _schema(self) -> t.StructType:
        """The schema of text files: text, except for fields that only a reader of JSON can parse."""
        if self.data.format == "csv":
            return t.StructType([t.StructField(name, t.StringType()) for name in self.kinds])
        return t.StructType(
            [t.StructField(name, _of_json(target)) for name, target in zip(self.kinds, self.targets, strict=True)]
        )

    def _fit(self, target: TableColumn, source: Column, kind: t.DataType) -> ConvertedColumn:
        if not self.data.is_text:
            return from_typed(target, source, kind)
        stored = _of_json(target) if self.data.format == "json" else t.StringType()
        if isinstance(stored, t.VariantType):
            return from_typed(target, f.when(~f.is_variant_null(source), f.to_json(source)), t.VariantType())
        if not isinstance(stored, t.StringType):
            return from_typed(target, source, stored)
        if self.data.format == "csv":
            source = f.when(source == _EMPTY, "").otherwise(source)
        return from_text(
            target, source, TimeFormats(self.data.option("dateFormat"), self.data.option("timestampFormat"))
        )

    # ---- what was rejected --------------------------------------------------------------------------------------

    def _plain_options(self) -> dict[str, str]:
        return {name: value for name, value in self.data.options.items() if name.lower() not in _OURS}

    def _record_text(self) -> Column:
        """The text of a record, from its fields."""
        if self.data.format == "csv":
            fields = [f.when(_column(name) != _EMPTY, _column(name)).alias(name) for name in self.kinds]
            return f.to_csv(f.struct(*fields), self._plain_options())
        return f.to_json(f.struct(*map(_column, self.kinds)))

    def record_of_line(self) -> Column:
        """The text of `_record_text` for a line in the column `value`."""
        if self.data.format == "csv":
            schema = ", ".join(f"c{place} string" for place in range(len(self.kinds)))
            options = self._plain_options()
            return f.to_csv(f.from_csv(f.col("value"), schema, options), options)
        ddl = ", ".join(f"`{item.name.replace('`', '``')}` {item.dataType.simpleString()}" for item in self._schema())
        return f.to_json(f.from_json(f.col("value"), ddl, self._plain_options()))

    def with_reasons(self, rejects: Sequence[Reject]) -> list[Reject]:
        """The rejects with a reason for records that a reader could not parse."""
        return [
            item if item.reason else dataclasses.replace(item, reason=self._reason(item.record)) for item in rejects
        ]

    def _reason(self, record: str) -> str:
        if self.data.format == "csv":
            sep = self.data.option("sep") or self.data.option("delimiter") or ","
            return csv_reason(record, len(self.kinds), sep, self.data.option("quote") or '"')
        return json_reason(record)


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")


def _of_json(target: TableColumn) -> t.DataType:
    """The type with which a JSON reader reads a field for a column."""
    if target.sql.type_name in ("json", "jsonb"):
        return t.VariantType()
    return target.sql.spark_type if target.sql.is_array else t.StringType()
