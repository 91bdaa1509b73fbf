"""Asks PostgreSQL for many values in one round trip, and compares it with our codecs.

One query runs every literal of a batch through a PL/pgSQL block that catches its error, so that good and bad inputs
cost one round trip together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg

from catalog.errors import SqlError
from catalog.types import lookup
from catalog.types.base import DEFAULT_FORMAT, FormatSettings

_PROBE = """
create or replace function pg_temp.probe(declared text, literals text[])
returns table (shown text, sent bytea, state text, message text, detail text, hint text, context text)
language plpgsql as $$
declare literal text; show_function text; send_function text;
begin
  select typoutput::regproc::text, typsend::regproc::text into show_function, send_function
    from pg_type where oid = declared::regtype;
  foreach literal in array literals loop
    shown := null; sent := null; state := null; message := null; detail := null; hint := null; context := null;
    begin
      execute format('select %s(v)::text, %s(v) from (select %L::%s as v offset 0) as s',
                     show_function, send_function, literal, declared)
        into shown, sent;
    exception when others then
      get stacked diagnostics state = returned_sqlstate, message = message_text, detail = pg_exception_detail,
        hint = pg_exception_hint, context = pg_exception_context;
    end;
    return next;
  end loop;
end $$
"""


@dataclass(frozen=True)
class Outcome:
    """A value's text and binary form, or its error."""

    shown: str | None
    sent: bytes | None
    state: str | None = None
    message: str | None = None
    detail: str | None = None
    hint: str | None = None
    context: str | None = None  # of JSON; PL/pgSQL adds its own lines below


def postgres_outcomes(postgres: psycopg.Connection, declared: str, literals: list[str]) -> list[Outcome]:
    """What PostgreSQL makes of each literal as a value of the declared type."""
    postgres.execute(_PROBE)
    rows = postgres.execute("select * from pg_temp.probe(%s, %s::text[])", (declared, literals)).fetchall()
    return [
        Outcome(
            shown,
            None if sent is None else bytes(sent),
            state,
            message,
            detail or None,
            hint or None,
            _json_line(context),
        )
        for shown, sent, state, message, detail, hint, context in rows
    ]


def _json_line(context: str | None) -> str | None:
    if not context or not context.startswith("JSON data"):
        return None
    return re.sub(r"\n(SQL statement|PL/pgSQL function).*", "", context, flags=re.DOTALL)


def our_outcome(oid: int, literal: str, typmod: int = -1, settings: FormatSettings = DEFAULT_FORMAT) -> Outcome:
    """What our codecs make of it; the binary form is read back too, and must give the same value."""
    sql_type = lookup(oid)
    try:
        value = sql_type.text_decoder(settings, typmod)(literal)
    except SqlError as error:
        return Outcome(None, None, error.sqlstate, error.message, error.detail, error.hint, error.context)
    shown = sql_type.text_encoder(settings)(value).decode()
    sent = sql_type.binary_encoder()(value)
    again = sql_type.binary_decoder(typmod)(sent)
    assert sql_type.text_encoder(settings)(again).decode() == shown, f"binary form of {literal!r}"
    to_storage, from_storage = sql_type.storage.to_storage, sql_type.storage.from_storage
    stored = to_storage(value) if to_storage else value
    kept = from_storage(stored) if from_storage else stored
    assert sql_type.text_encoder(settings)(kept).decode() == shown, f"stored form of {literal!r}"
    return Outcome(shown, sent)


def assert_same(
    postgres: psycopg.Connection,
    oid: int,
    declared: str,
    literals: list[str],
    typmod: int = -1,
    *,
    settings: FormatSettings = DEFAULT_FORMAT,
) -> None:
    """Fails with every literal on which PostgreSQL and we differ."""
    expected = postgres_outcomes(postgres, declared, literals)
    ours = [our_outcome(oid, literal, typmod, settings) for literal in literals]
    differences = [
        f"{literal[:80]!r}\n  PostgreSQL {theirs}\n  ours       {mine}"[:1500]
        for literal, theirs, mine in zip(literals, expected, ours, strict=True)
        if theirs != mine
    ]
    assert not differences, f"{declared}: {len(differences)} differences\n" + "\n".join(differences)
