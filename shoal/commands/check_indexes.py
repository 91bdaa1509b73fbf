"""`shoal check --dsn`: compares every index of a server's databases, and every analytic copy of a table, with the rows
of its table, by the SQL function shoal_check_indexes() (engine/index_checks.py)."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from shoal.commands.cluster_access import conninfo, query_node, table

BUILD_AGAIN = "ALTER TABLE ... SET (columnar = off), then RESET (columnar), has them built again"
DATABASES = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY datname"


async def check_indexes(options: argparse.Namespace) -> int:
    """Prints the result. Returns 1 if an index differs."""
    rows = await query_node(conninfo(options.user, options.dsn), DATABASES, timeout=options.timeout)
    found: dict[str, dict[str, Any]] = {}
    for (name,) in rows:
        where = conninfo(options.user, options.dsn, dbname=name)
        ((answer,),) = await query_node(where, "SELECT shoal_check_indexes()", timeout=options.timeout)
        found[name] = orjson.loads(answer)
    good = not any(item["damaged"] for item in found.values())
    if options.json:
        databases = [{"database": name, **item} for name, item in found.items()]
        print(orjson.dumps({"equal": good, "databases": databases}, option=orjson.OPT_INDENT_2).decode())
    else:
        _show(found)
    return 0 if good else 1


def _show(found: dict[str, dict[str, Any]]) -> None:
    lines = [
        (name, f"{item['schema']}.{item['table']}", item["index"], item["missing"], item["stale"], item["wrong"],
         item["message"])
        for name, database in found.items()
        for item in database["damaged"]
    ]  # fmt: skip
    kinds = ("tables", "indexes", "copies")
    tables, indexes, copies = (sum(item[kind] for item in found.values()) for kind in kinds)
    if not lines:
        print(f"all {indexes} indexes of {tables} tables, and {copies} analytic copies, match the rows of their tables")
        return
    print(table(("DATABASE", "TABLE", "INDEX", "MISSING", "STALE", "WRONG", ""), lines))
    wrong = sum(bool(line[2]) for line in lines)
    if wrong:
        print(f"WRONG: {wrong} of {indexes} indexes differ from their tables' rows; REINDEX INDEX rebuilds an index")
    if wrong < len(lines):
        print(f"WRONG: {len(lines) - wrong} of {copies} analytic copies differ; {BUILD_AGAIN}")
