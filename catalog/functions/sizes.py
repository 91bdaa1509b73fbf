"""pg_relation_size, pg_table_size, pg_indexes_size, pg_total_relation_size, pg_database_size, pg_tablespace_size; and
the counts of rows of pg_stat_user_tables.

engine/node/sizes.py determines the sizes. On the columnar path, the functions read virtual tables
(catalog/system/lookups.py), where a size that the role may not see is NULL.
"""

from __future__ import annotations

from typing import Protocol, cast

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implements
from catalog.privileges import acts_as, may
from catalog.schema import DEFAULT_TABLESPACE_OID, READ_ALL_STATS_OID, Database, Role, Tablespace

FORKS = ("main", "fsm", "vm", "init")


class _Surroundings(Protocol):
    catalog: Catalog
    user: Role | None

    def relation_size(self, oid: int) -> tuple[int | None, int] | None: ...
    def rows_written(self, kind: str, oid: int) -> int: ...
    def live_rows(self, oid: int) -> int: ...
    def reset_rows_written(self, oid: int = 0) -> None: ...
    def database_size(self, oid: int) -> int | None: ...
    def tablespace_size(self, oid: int) -> int: ...


class _Session(Protocol):
    @property
    def surroundings(self) -> _Surroundings: ...


def _surroundings(call: CallContext) -> _Surroundings:
    return cast(_Session, call.session).surroundings


@implements("pg_relation_size", needs_session=True)
def _relation_size(call: CallContext, oid: int, fork: str = "main") -> int | None:
    if fork not in FORKS:
        raise SqlError("22023", "invalid fork name", hint='Valid fork names are "main", "fsm", "vm", and "init".')
    found = _surroundings(call).relation_size(oid)
    return None if found is None else found[0] if fork == "main" else 0


@implements("pg_table_size", needs_session=True)
def _table_size(call: CallContext, oid: int) -> int | None:
    found = _surroundings(call).relation_size(oid)
    return None if found is None else found[0]


@implements("pg_indexes_size", needs_session=True)
def _indexes_size(call: CallContext, oid: int) -> int | None:
    found = _surroundings(call).relation_size(oid)
    return None if found is None else found[1]


@implements("pg_total_relation_size", needs_session=True)
def _total_size(call: CallContext, oid: int) -> int | None:
    found = _surroundings(call).relation_size(oid)
    return None if found is None or found[0] is None else found[0] + found[1]


def may_see(catalog: Catalog, user: Role | None, item: Database | Tablespace) -> bool:
    """Whether a role may see the size of an object. This requires CONNECT on a database, or CREATE on a tablespace
    other than the default one, or the privileges of pg_read_all_stats."""
    if user is None or (isinstance(item, Tablespace) and item.name == "pg_default"):
        return True
    if acts_as(catalog, user, READ_ALL_STATS_OID):
        return True
    return may(catalog, item, user, "c" if isinstance(item, Database) else "C")


def _is_there(call: CallContext, oid: int, kind: type[Database | Tablespace]) -> bool:
    """Whether the object exists. Raises 42501 if the user may not see its size."""
    surroundings = _surroundings(call)
    item = surroundings.catalog.objects.get(oid)
    if not isinstance(item, kind):
        return False
    if not may_see(surroundings.catalog, surroundings.user, item):
        raise SqlError("42501", f"permission denied for {kind.__name__.lower()} {item.name}")
    return True


@implements("pg_database_size_oid", needs_session=True)
def _database_size(call: CallContext, oid: int) -> int | None:
    return _surroundings(call).database_size(oid) if _is_there(call, oid, Database) else None


@implements("pg_database_size_name", needs_session=True)
def _named_database_size(call: CallContext, name: str) -> int | None:
    oid = _surroundings(call).catalog.databases.get(name)
    if oid is None:
        raise SqlError("3D000", f'database "{name}" does not exist')
    return _database_size(call, oid)


@implements("pg_tablespace_size_oid", needs_session=True)
def _tablespace_size(call: CallContext, oid: int) -> int | None:
    return _surroundings(call).tablespace_size(oid) if _is_there(call, oid, Tablespace) else None


@implements("pg_tablespace_databases", needs_session=True)
def _databases_of(call: CallContext, oid: int) -> list[int]:
    """pg_tablespace_databases(): every database of the default tablespace, in which all of them begin."""
    catalog = _surroundings(call).catalog
    return [item.oid for item in catalog.by_kind.get(Database, ())] if oid == DEFAULT_TABLESPACE_OID else []


@implements("pg_tablespace_size_name", needs_session=True)
def _named_tablespace_size(call: CallContext, name: str) -> int | None:
    oid = _surroundings(call).catalog.tablespaces.get(name)
    if oid is None:
        raise SqlError("42704", f'tablespace "{name}" does not exist')
    return _tablespace_size(call, oid)


# ---- rows -----------------------------------------------------------------------------------------------------------


@implements("pg_stat_get_tuples_inserted", needs_session=True)
def _inserted_rows(call: CallContext, oid: int) -> int:
    return _surroundings(call).rows_written("inserted", oid)


@implements("pg_stat_get_tuples_updated", needs_session=True)
def _updated_rows(call: CallContext, oid: int) -> int:
    return _surroundings(call).rows_written("updated", oid)


@implements("pg_stat_get_tuples_deleted", needs_session=True)
def _deleted_rows(call: CallContext, oid: int) -> int:
    return _surroundings(call).rows_written("deleted", oid)


@implements("pg_stat_get_live_tuples", needs_session=True)
def _live(call: CallContext, oid: int) -> int:
    return _surroundings(call).live_rows(oid)


@implements("pg_stat_reset_single_table_counters", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _reset_rows(call: CallContext, oid: int) -> str:
    _surroundings(call).reset_rows_written(oid)
    return ""


@implements("pg_stat_reset", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _reset_all(call: CallContext) -> str:
    _surroundings(call).reset_rows_written()
    return ""
