"""The relations of pg_catalog and information_schema: their names, OIDs and columns, and the text of the views.

catalog/data/pg_relations.tsv and pg_views.tsv have PostgreSQL's declarations. A view over other relations is a `View`,
which is expanded like a user's view. A view over a function of the running server (`COMPUTED`: pg_settings,
pg_stat_activity, ...) is a `VirtualTable`, like every table.

The views of information_schema use domains, and SQL functions of whole rows. `view_text` replaces a domain by its base
type (which PostgreSQL also reports to clients), and the two functions of rows by their CASE expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from catalog.schema import INFORMATION_SCHEMA_OID, PG_CATALOG_OID, Column, View, VirtualTable
from catalog.system.cluster import CLUSTER_VIEWS
from catalog.types import oids
from catalog.types.base import TypeRef

DATA = Path(__file__).resolve().parent.parent / "data"

# Views over functions of the running server, which are virtual tables here.
COMPUTED = frozenset({
    "pg_settings", "pg_stat_activity", "pg_locks", "pg_cursors", "pg_prepared_statements", "pg_prepared_xacts",
    "pg_timezone_names", "pg_timezone_abbrevs", "pg_available_extensions", "pg_available_extension_versions",
    "pg_file_settings", "pg_hba_file_rules", "pg_ident_file_mappings", "pg_config", "pg_shmem_allocations",
    "pg_backend_memory_contexts", "pg_publication_tables", "pg_replication_slots", "pg_replication_origin_status",
    "pg_stat_replication", "pg_stat_replication_slots", "pg_stat_wal_receiver", "pg_stat_subscription",
    "pg_stat_subscription_stats", "pg_stat_ssl", "pg_stat_gssapi", "pg_stat_archiver", "pg_stat_bgwriter",
    "pg_stat_wal", "pg_stat_slru", "pg_stat_database", "pg_stat_database_conflicts", "pg_stat_recovery_prefetch",
    "pg_stat_progress_analyze", "pg_stat_progress_basebackup", "pg_stat_progress_cluster", "pg_stat_progress_copy",
    "pg_stat_progress_create_index", "pg_stat_progress_vacuum", "pg_seclabels",
})  # fmt: skip
# Extended statistics and large objects do not exist here, nor do the types of these columns.
OMITTED = frozenset({"pg_statistic_ext_data", "pg_stats_ext", "pg_stats_ext_exprs", "pg_largeobject"})

_SCHEMAS = {"pg_catalog": PG_CATALOG_OID, "information_schema": INFORMATION_SCHEMA_OID}
_DOMAINS = {
    "sql_identifier": "name",
    "character_data": "character varying",
    "cardinal_number": "integer",
    "yes_or_no": "character varying(3)",
    "time_stamp": "timestamp(2) with time zone",
}
_DOMAIN = re.compile(rf"::information_schema\.({'|'.join(_DOMAINS)})\b")
_OF_ROWS = re.compile(r"information_schema\._pg_truetyp(id|mod)\((\w+)\.\*, (\w+)\.\*\)")
_FUNCTION = re.compile(r"information_schema\.(_pg_[a-z_]+\()")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_rows(name: str) -> Iterator[dict[str, str | None]]:
    """Yields the rows of catalog/data/<name>.tsv (COPY text form with a header line), by column name; None for NULL."""
    with (DATA / f"{name}.tsv").open(encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
    for fields in read_fields(name):
        yield dict(zip(names, fields, strict=True))


def read_fields(name: str) -> Iterator[list[str | None]]:
    """Yields the rows of catalog/data/<name>.tsv as lists of fields."""
    lines = (DATA / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
    for line in lines[1:]:
        if line:
            yield [_unescape(item) for item in line.split("\t")]


def _unescape(item: str) -> str | None:
    if item == "\\N":
        return None
    if "\\" not in item:
        return item
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), item)


def _columns(text: str) -> tuple[Column, ...]:
    columns = []
    for number, item in enumerate(text.split(" "), 1):
        name, oid, typmod, not_null, collation = item.split(":")
        columns.append(Column(number, name, TypeRef(int(oid), int(typmod)), not_null == "1", collation=int(collation)))
    return tuple(columns)


def view_text(text: str) -> str:
    """Converts a view's text to Shoal's types and functions."""
    text = text.strip().removesuffix(";")
    text = _DOMAIN.sub(lambda found: "::" + _DOMAINS[found[1]], text)
    text = _OF_ROWS.sub(_true_type, text)
    return _FUNCTION.sub(r"\1", text)


def _true_type(found: re.Match[str]) -> str:
    """Returns a CASE for the type or modifier of a column; for a domain, that of the base type."""
    own, base = ("typid", "basetype") if found[1] == "id" else ("typmod", "typmod")
    return f"(CASE WHEN {found[3]}.typtype = 'd' THEN {found[3]}.typ{base} ELSE {found[2]}.att{own} END)"


@cache
def system_relations() -> Mapping[tuple[int, str], VirtualTable | View]:
    """Returns all relations of pg_catalog and information_schema, and the views of the cluster, by (schema OID,
    name)."""
    texts = {row["oid"]: row["pg_get_viewdef"] for row in read_rows("pg_views")}
    found: dict[tuple[int, str], VirtualTable | View] = {}
    for row in read_rows("pg_relations"):
        name, kind, columns = str(row["relname"]), str(row["relkind"]), _columns(str(row["string_agg"]))
        if name in OMITTED:
            continue
        oid, schema = int(str(row["oid"])), _SCHEMAS[str(row["nspname"])]
        text = texts.get(row["oid"])
        if text is None or name in COMPUTED:
            found[schema, name] = VirtualTable(oid, schema, name, columns, kind)
        else:
            found[schema, name] = View(oid, schema, name, columns, view_text(text))
    return found | {(view.schema, view.name): view for view in CLUSTER_VIEWS}


@cache
def _view_texts() -> Mapping[int, str]:
    return {int(row[0] or 0): row[1] or "" for row in read_fields("pg_views")}


def system_view_text(oid: int) -> str | None:
    """Returns the definition of a system view as PostgreSQL prints it; None for other OIDs."""
    return _view_texts().get(oid)


def _table(number: int, title: str, /, **columns: int) -> VirtualTable:
    """Returns an internal relation for catalog functions, which queries cannot name."""
    made = [Column(position, name, TypeRef(oid)) for position, (name, oid) in enumerate(columns.items(), 1)]
    return VirtualTable(number, PG_CATALOG_OID, title, tuple(made))


_O, _T, _B = oids.OID, oids.TEXT, oids.BOOL
RELATION_NAMES = _table(15001, "relation_names", oid=_O, shown=_T, visible=_B, owned=_B, comment=_T)
RELATION_INPUT = _table(15002, "relation_input", name=_T, oid=_O)
TYPE_NAMES = _table(15003, "type_names", oid=_O, shown=_T, visible=_B)
TYPE_INPUT = _table(15004, "type_input", name=_T, oid=_O)
FUNCTION_NAMES = _table(
    15005,
    "function_names",
    oid=_O,
    shown=_T,
    signature=_T,
    arguments=_T,
    identity=_T,
    result=_T,
    definition=_T,
    body=_T,
    visible=_B,
)
OPERATOR_NAMES = _table(15006, "operator_names", oid=_O, shown=_T, signature=_T)
CONSTRAINT_TEXTS = _table(15007, "constraint_texts", oid=_O, plain=_T, pretty=_T)
INDEX_TEXTS = _table(15008, "index_texts", oid=_O, number=oids.INT4, plain=_T, pretty=_T)
VIEW_TEXTS = _table(15009, "view_texts", oid=_O, plain=_T, pretty=_T)
SCHEMA_NAMES = _table(15010, "schema_names", oid=_O, name=_T, shown=_T, owned=_B, other_temporary=_B)
ROLE_NAMES = _table(15011, "role_names", oid=_O, name=_T, shown=_T, held=_B, member=_B, admin=_B)
OWNED_SEQUENCES = _table(15012, "owned_sequences", relation=_O, name=_T, shown=_T)
DATABASE_SIZES = _table(15013, "database_sizes", oid=_O, name=_T, size=oids.INT8)
SEQUENCE_VALUES = _table(15014, "sequence_values", oid=_O, last=oids.INT8, denied=_T)
SETTINGS = _table(15015, "setting_values", name=_T, value=_T)
ROLE_GROUPS = _table(15016, "role_groups", member=_O, role=_O, inherited=_B)
HELD = _table(15017, "held_privileges", oid=_O, number=oids.INT4, name=_T, held=_T)
PARTITION_TEXTS = _table(15018, "partition_texts", oid=_O, key=_T, condition=_T)
_8 = oids.INT8
RELATION_SIZES = _table(15019, "relation_sizes", oid=_O, own=_8, indexes=_8, total=_8)
TABLE_COUNTS = _table(15021, "table_counts", oid=_O, inserted=_8, updated=_8, deleted=_8, live=_8)
COLLATION_NAMES = _table(15022, "collation_names", oid=_O, shown=_T, visible=_B, version=_T)
TEXT_SEARCH_NAMES = _table(15034, "text_search_names", oid=_O, visible=_B)
TABLESPACE_SIZES = _table(15020, "tablespace_sizes", oid=_O, name=_T, size=_8)
TRIGGER_TEXTS = _table(15028, "trigger_texts", oid=_O, plain=_T, pretty=_T)
STATISTICS_TEXTS = _table(
    15031, "statistics_texts", oid=_O, definition=_T, columns=_T, expressions=oids.TEXT_ARRAY, shown=_T, visible=_B
)
RULE_TEXTS = _table(15036, "rule_texts", oid=_O, plain=_T, pretty=_T)
UPDATABLE = _table(15023, "updatable_views", oid=_O, number=oids.INT4, events=oids.INT4)
ARGUMENT_DEFAULTS = _table(15024, "argument_defaults", oid=_O, number=oids.INT4, text=_T)
IDENTITIES = _table(
    15025,
    "object_identities",
    **{"class": _O},
    oid=_O,
    number=oids.INT4,
    type=_T,
    schema=_T,
    name=_T,
    identity=_T,
    names=oids.TEXT_ARRAY,
    arguments=oids.TEXT_ARRAY,
)
ROW_SECURITY = _table(15026, "row_security", oid=_O, active=_B)
_F = oids.FLOAT8
FUNCTION_COUNTS = _table(
    15027, "function_counts", oid=_O, calls=_8, total=_F, own=_F, xact_calls=_8, xact_total=_F, xact_own=_F
)
internal_tables = (
    RELATION_NAMES, RELATION_INPUT, TYPE_NAMES, TYPE_INPUT, FUNCTION_NAMES, OPERATOR_NAMES, CONSTRAINT_TEXTS,
    INDEX_TEXTS, VIEW_TEXTS, SCHEMA_NAMES, ROLE_NAMES, OWNED_SEQUENCES, DATABASE_SIZES, SEQUENCE_VALUES, SETTINGS,
    ROLE_GROUPS, HELD, PARTITION_TEXTS, RELATION_SIZES, TABLESPACE_SIZES, TABLE_COUNTS,
    COLLATION_NAMES, UPDATABLE, ARGUMENT_DEFAULTS, IDENTITIES, ROW_SECURITY, TRIGGER_TEXTS, RULE_TEXTS, FUNCTION_COUNTS,
    STATISTICS_TEXTS, TEXT_SEARCH_NAMES,
)  # fmt: skip
