"""Checks the options of a read or a write. Their names are those of Spark's JDBC source where the meaning is the
same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import psycopg
from psycopg import conninfo

SNAPSHOT = re.compile(r"[0-9A-F]{8}-[0-9A-F]{8}-\d+", re.ASCII)
WRITE_MODES = ("append", "upsert", "delete")
_JDBC = "jdbc:"
_KNOWN = frozenset(
    ("url", "dbtable", "query", "user", "password", "numpartitions", "partitioncolumn", "lowerbound", "upperbound",
     "snapshot", "snapshottimeout", "stagetimeout", "writemode", "keycolumns", "connecttimeout", "pushdownpredicate")
)  # fmt: skip
_OTHERS = ("path", "stream.")  # what Spark puts there itself, and what streams have
_OF_TABLE = "option."
_NOTHING_GIVEN = (
    "no options at all: Spark hands the options of a stored table to no data source in Python; say them in the query, "
    "SELECT ... FROM t WITH (url = '...', dbtable = '...'), or make the table a temporary view"
)


class OptionError(ValueError):
    """An option that is missing, unknown or wrong. The text contains no value that may be a secret."""


@dataclass(frozen=True)
class ShoalOptions:
    """`conninfo` is a secret: it is never in a representation or in an error."""

    conninfo: str = field(repr=False)
    dbtable: str | None = None
    query: str | None = None
    partitions: int | None = None
    partition_column: str | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    snapshot: str | None = None
    snapshot_timeout: int = 600  # seconds
    stage_timeout: int = 3600
    write_mode: str = "append"
    key_columns: tuple[str, ...] = ()
    push_filters: bool = True

    @property
    def relation(self) -> str:
        """The relation after FROM: a table's name, or a query in parentheses with an alias."""
        if self.query is not None:
            return f"({self.query}) AS shoal_query"
        assert self.dbtable is not None
        return self.dbtable

    @property
    def table(self) -> str | None:
        """The table's name, if it is a table and not a query."""
        if self.query is not None or self.dbtable is None or self.dbtable.lstrip().startswith("("):
            return None
        return self.dbtable

    def connect(self) -> psycopg.Connection[Any]:
        """An autocommit connection. Raises psycopg.OperationalError, whose text has no password."""
        return psycopg.connect(self.conninfo, autocommit=True)


def read_options(given: Mapping[str, str]) -> ShoalOptions:
    """Raises OptionError."""
    options = {name.lower(): value for name, value in given.items()}
    of_table = {name.removeprefix(_OF_TABLE): value for name, value in options.items() if name.startswith(_OF_TABLE)}
    options = {**of_table, **options}
    if not options:
        raise OptionError(_NOTHING_GIVEN)
    unknown = sorted(name for name in options if name not in _KNOWN and not name.startswith(_OTHERS))
    if unknown and not of_table:  # of a table of its catalog Spark says more than its options
        raise OptionError(
            f'unknown option "{unknown[0]}" of the data source shoal; known are: {", ".join(sorted(_KNOWN))}'
        )
    dbtable, query = options.get("dbtable", options.get("path")), options.get("query")
    if (dbtable is None) == (query is None):
        raise OptionError(
            f'give either the option "dbtable" or the option "query"; given are: {", ".join(sorted(options))}'
        )
    bounds = tuple(options.get(name) for name in ("partitioncolumn", "lowerbound", "upperbound"))
    if any(bounds) and not all((*bounds, options.get("numpartitions"))):
        raise OptionError('"partitionColumn", "lowerBound", "upperBound" and "numPartitions" go together')
    mode = options.get("writemode", "append").lower()
    if mode not in WRITE_MODES:
        raise OptionError(f'the option "writeMode" must be one of {", ".join(WRITE_MODES)}')
    snapshot = options.get("snapshot")
    if snapshot is not None and not SNAPSHOT.fullmatch(snapshot):
        raise OptionError(
            f'the option "snapshot" must be a snapshot that moment(url) or pg_export_snapshot() gave, not "{snapshot}"'
        )
    return ShoalOptions(
        _conninfo(options),
        dbtable=dbtable,
        query=None if query is None else query.strip().rstrip(";"),
        partitions=_number(options, "numPartitions"),
        partition_column=bounds[0],
        lower_bound=bounds[1],
        upper_bound=bounds[2],
        snapshot=snapshot,
        snapshot_timeout=_number(options, "snapshotTimeout") or ShoalOptions.snapshot_timeout,
        stage_timeout=_number(options, "stageTimeout") or ShoalOptions.stage_timeout,
        write_mode=mode,
        key_columns=tuple(filter(None, (name.strip() for name in options.get("keycolumns", "").split(",")))),
        push_filters=options.get("pushdownpredicate", "true").lower() != "false",
    )


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError(f'the option "{name}" must be a whole number of at least 1')
    return int(text)


def _conninfo(options: Mapping[str, str]) -> str:
    """libpq's connection string, from a url in libpq's or JDBC's form, with the separate user and password if they are
    given."""
    url = options.get("url")
    if url is None:
        raise OptionError('the option "url" is missing: postgresql://user@host:port/database')
    more = {name: options[name] for name in ("user", "password") if name in options}
    more["connect_timeout"] = options.get("connecttimeout", "30")
    url, _, parameters = url.removeprefix(_JDBC).partition("?")
    try:
        parts = dict(parse_qsl(parameters, strict_parsing=bool(parameters)))
        found = {**conninfo.conninfo_to_dict(url), **parts, **more}
        found.setdefault("application_name", "shoal_spark")
        return conninfo.make_conninfo("", **found)
    except (psycopg.Error, ValueError):
        message = 'the option "url" is none: it has the form postgresql://user@host:port/database?name=value'
        raise OptionError(message) from None  # what libpq says would repeat it


def quote_name(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(quote_name, names))
