"""The data source itself: the interface for `format("shoal")`."""

from __future__ import annotations

import sys

from pyspark.sql import types as t
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from shoal_spark.options import ShoalOptions, read_options
from shoal_spark.reader import FilteringReader, ShoalReader, columns_of
from shoal_spark.stream_reader import SCHEMA, ShoalStreamReader, is_stream, read_stream_options
from shoal_spark.stream_writer import ShoalStreamWriter, batch_options
from shoal_spark.types import schema_of
from shoal_spark.writer import ShoalWriter


class ShoalDataSource(DataSource):
    """spark.dataSource.register(ShoalDataSource)

    spark.read.format("shoal").options(url="postgresql://postgres@127.0.0.1:5432/postgres", dbtable="t").load()
    """

    @classmethod
    def name(cls) -> str:
        return "shoal"

    def _read(self) -> ShoalOptions:
        return read_options(self.options)

    def schema(self) -> t.StructType:
        """The columns of the table or query; of a change stream those of its changes."""
        if is_stream(self.options):
            return SCHEMA
        options = self._read()
        with options.connect() as connection:
            return schema_of(columns_of(connection, options.relation))

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """A reader of the columns in `schema`. A user's schema reads no more than its columns."""
        options = self._read()
        if options.push_filters and _asks_for_filters():
            return FilteringReader(options, schema)
        return ShoalReader(options, schema)

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        return ShoalWriter(self._read(), schema, overwrite)

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802
        return ShoalStreamReader(read_stream_options(self.options))

    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return ShoalStreamWriter(read_options(batch_options(self.options)), schema, overwrite)


def _asks_for_filters() -> bool:
    """Whether Spark requests a reader to push filters down. Spark refuses a reader that accepts filters if the setting
    is off, and passes a data source neither the setting nor the step."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename.endswith("data_source_pushdown_filters.py"):
            return True
    return False
