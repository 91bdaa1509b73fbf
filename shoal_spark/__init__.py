"""Tables of Shoal as a data source of Spark: `spark.dataSource.register(ShoalDataSource)`, then `format("shoal")`.

    source.py     the data source itself
    options.py    the options: url, dbtable or query, ...; connections; no option is ever printed
    types.py      SQL types and Spark's types, as in Spark's JDBC source where that is exact
    filters.py    Spark's filters as SQL
    reader.py     batch reads: one snapshot, ranges of keys, Arrow from end to end
    writer.py     batch writes: tasks copy rows to a stage, and one commit writes them
    stream_reader.py, stream_writer.py   change streams as a source; a sink that writes every batch once
    tables.py     every table of a database as a view; one snapshot for several reads
    jobs/         the jobs of `shoal pipeline`

Spark runs each step in a Python process of its own: the plan of a read, every task, the commit. They share only pickled
objects. So the server keeps the state that lasts longer under a name (the snapshot of a read, the rows before the
commit), until it is released or unused for some time.

The package imports nothing of the server, because Spark sends it to executors without the server.
"""

from shoal_spark.source import ShoalDataSource
from shoal_spark.tables import moment, register_tables

__all__ = ["ShoalDataSource", "moment", "register_tables"]
