"""Tables of Shoal as a data source of Spark: `spark.dataSource.register(ShoalDataSource)`, then `format("shoal")`.

    source.py     the data source itself
    options.py    the options: url, dbtable or query, ...; connections; no option is ever printed
    types.py      SQL types as Spark's, and Spark's as SQL types, as Spark's JDBC source has them where it is exact
    filters.py    Spark's filters as SQL
    reader.py     batch reads: one snapshot, ranges of keys, Arrow all the way
    writer.py     batch writes: tasks copy into a stage, one commit
    stream_reader.py, stream_writer.py   change streams as a source; a sink that writes every batch once
    tables.py     every table of a database as a view; one snapshot for several reads
    jobs/         the jobs of `shoal pipeline`

Spark runs each step in a Python process of its own: the plan of a read, every task, the commit. They share only pickled
objects. So the server keeps under a name what lasts longer (the snapshot of a read, the rows that wait for the commit),
until it is released or nobody has used it for a while.

The package imports nothing of the server, because Spark sends it to executors as it is.
"""

from shoal_spark.source import ShoalDataSource
from shoal_spark.tables import moment, register_tables

__all__ = ["ShoalDataSource", "moment", "register_tables"]
