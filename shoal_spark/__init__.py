"""Tables of Shoal as a data source of Spark: `spark.dataSource.register(ShoalDataSource)`, then `format("shoal")`.

    options.py    what a user gives: url, dbtable or query, ...; connections; nothing of it is ever printed
    types.py      SQL types as Spark's, and Spark's as SQL types, as Spark's JDBC source has them where it is exact
    filters.py    Spark's filters as SQL
    reading.py    one moment, ranges of keys, Arrow all the way
    writing.py    parts into a stage, one commit
    stream_reading.py, stream_writing.py   change streams as a source; a sink that writes every batch once
    tables.py     every table of a database as a view; one moment for several reads

Spark runs each step in a Python process of its own: the plan of a read, every task, the commit. They share nothing but
what is pickled, so whatever lasts longer (the moment that is read, the rows that wait for the commit) is kept by the
server under a name, until it is let go or nobody has used it for a while.

The package stands apart: it imports nothing of the server, and goes to executors as it is.
"""

from shoal_spark.source import ShoalDataSource
from shoal_spark.tables import moment, register_tables

__all__ = ["ShoalDataSource", "moment", "register_tables"]
