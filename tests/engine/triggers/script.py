"""Runs statements on a connection, and keeps all that they give: rows, tags, errors with their context, notices."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tests.engine.session.conftest import Pair

TRACE = """
CREATE FUNCTION trace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'STATEMENT' THEN
    RAISE NOTICE '% % % % %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME;
    RETURN NULL;
  END IF;
  RAISE NOTICE '% % % % %: % -> %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, OLD, NEW;
  IF TG_WHEN = 'AFTER' THEN
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    IF OLD.a % 4 = 3 THEN
      RETURN NULL;
    END IF;
    RETURN OLD;
  END IF;
  NEW.note := coalesce(NEW.note, '') || '+' || TG_NAME;
  IF NEW.a % 4 = 3 THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$
"""

Outcome = tuple[object, ...]


def outcomes(connection: psycopg.Connection[tuple[object, ...]], statements: Sequence[str]) -> list[Outcome]:
    """What each statement gives."""
    notices: list[str] = []

    def note(message: psycopg.errors.Diagnostic) -> None:
        notices.append(f"{message.severity} {message.message_primary} {message.message_detail or ''}")

    connection.add_notice_handler(note)
    found: list[Outcome] = []
    for statement in statements:
        del notices[:]
        try:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description is not None else []
            found.append((statement, cursor.statusmessage, rows, tuple(notices)))
        except psycopg.Error as error:
            told = error.diag
            place = (told.message_primary, told.message_detail, told.message_hint, told.context)
            found.append((statement, told.sqlstate, *place, tuple(notices)))
    connection.remove_notice_handler(note)
    return found


def compare(pair: Pair, statements: Sequence[str]) -> list[Outcome]:
    """Asserts that the statements give the same on both servers; returns what they give."""
    ours, theirs = outcomes(pair.shoal, statements), outcomes(pair.postgres, statements)
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine == wanted, f"\n{mine}\n{wanted}"
    return theirs
