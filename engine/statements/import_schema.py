"""IMPORT FOREIGN SCHEMA: asks the other server for its tables, and runs CREATE FOREIGN TABLE for each
(postgresImportForeignSchema)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.extensions import POSTGRES_HANDLER
from catalog.identifiers import quote_identifier, quote_literal
from catalog.schema import ForeignServer
from engine.ddl import foreign
from engine.foreign.connections import ForeignConnections
from engine.foreign.interface import Row
from engine.sql import ast
from engine.sql.parser import parse
from engine.statements import schema_change
from engine.statements.ddl_context import SessionDdl

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.portal import Portal
    from engine.session.session import Session

_TABLES = """SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attgenerated, o.collname, m.nspname
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation AND o.collname <> 'default'
    LEFT JOIN pg_catalog.pg_namespace m ON m.oid = o.collnamespace
    WHERE c.relkind IN ('r', 'v', 'f', 'm', 'p') AND n.nspname = {schema}{chosen}
    ORDER BY c.relname, a.attnum"""
_CHOICES = {"import_collate": True, "import_default": False, "import_generated": True, "import_not_null": True}


async def run(session: Session, statement: ast.ImportForeignSchemaStmt, portal: Portal, sink: Sink) -> None:
    """Raises 42704, 42501, 3F000, 55000, HV00D, HV00Q, and errors of the connection and of each table."""
    if session.transaction is None:
        session.begin_implicit()
    server = _server(session, statement)
    choices = _choices(statement.options)
    for definition in await _definitions(session, server, statement, choices):
        (made,) = parse(definition)
        assert isinstance(made.tree, ast.CreateStmt)
        relation = replace(made.tree.relation, schema=statement.target, location=-1)
        try:
            await schema_change.execute(session, replace(made.tree, relation=relation))
        except SqlError as error:
            error.position = None
            context = f'importing foreign table "{relation.name}"'
            error.context = "\n".join(filter(None, (error.context, context)))
            raise
    sink.complete("IMPORT FOREIGN SCHEMA")


def _server(session: Session, statement: ast.ImportForeignSchemaStmt) -> ForeignServer:
    context = SessionDdl(session)
    server = foreign.server_to_use(context, statement.server)
    context.creation_schema(ast.RangeVar(None, statement.target, ""))
    wrapper = foreign.wrapper_of(context, server)
    if wrapper.handler != POSTGRES_HANDLER:
        raise SqlError("55000", f'foreign-data wrapper "{wrapper.name}" has no handler')
    return server


def _choices(options: Iterable[ast.ForeignOption]) -> dict[str, bool]:
    found = dict(_CHOICES)
    for option in options:
        if option.name not in found:
            raise SqlError("HV00D", f'invalid option "{option.name}"')
        if option.value.lower() not in ("true", "on", "1", "false", "off", "0"):
            raise SqlError("42601", f"{option.name} requires a Boolean value")
        found[option.name] = option.value.lower() in ("true", "on", "1")
    return found


async def _definitions(
    session: Session, server: ForeignServer, statement: ast.ImportForeignSchemaStmt, choices: dict[str, bool]
) -> list[str]:
    """The texts of CREATE FOREIGN TABLE."""
    if session.foreign is None:
        session.foreign = ForeignConnections(session)
    connection = await session.foreign.get(server, 0 if session.user is None else session.user.oid)
    schema = quote_literal(statement.schema)
    found = await connection.run(f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {schema}")
    if not found.size:
        raise SqlError("HV00Q", f'schema "{statement.schema}" is not present on foreign server "{server.name}"')
    chosen = "" if statement.choice == "limit" else " AND NOT c.relispartition"
    if statement.choice:
        names = ", ".join(map(quote_literal, statement.tables))
        chosen += f" AND c.relname {'IN' if statement.choice == 'limit' else 'NOT IN'} ({names})"
    answer = await connection.run(_TABLES.format(schema=schema, chosen=chosen))
    return [
        _definition(server, statement.schema, name, list(columns), choices)
        for name, columns in groupby(answer.rows(), key=lambda row: _text(row[0]))
    ]


def _text(cell: bytes | None) -> str:
    return "" if cell is None else cell.decode()


def _definition(server: ForeignServer, schema: str, name: str, rows: Sequence[Row], choices: dict[str, bool]) -> str:
    columns = [_column([_text(cell) for cell in row], choices) for row in rows if row[1] is not None]
    return (
        f"CREATE FOREIGN TABLE {quote_identifier(name)} ({', '.join(columns)}) SERVER {quote_identifier(server.name)} "
        f"OPTIONS (schema_name {quote_literal(schema)}, table_name {quote_literal(name)})"
    )


def _column(cells: Sequence[str], choices: dict[str, bool]) -> str:
    _, name, type_, not_null, default, generated, collation, collation_schema = cells
    text = f"{quote_identifier(name)} {type_} OPTIONS (column_name {quote_literal(name)})"
    if choices["import_collate"] and collation:
        text += f" COLLATE {quote_identifier(collation_schema)}.{quote_identifier(collation)}"
    if choices["import_default"] and default and not generated:
        text += f" DEFAULT {default}"
    if choices["import_generated"] and generated:
        text += f" GENERATED ALWAYS AS ({default}) STORED"
    if choices["import_not_null"] and not_null == "t":
        text += " NOT NULL"
    return text
