"""xml: wrong texts, hostile ones, and both ends of its binary form, beside PostgreSQL."""

from __future__ import annotations

import time

import psycopg
import pytest

from tests.server import ShoalServer

WRONG = (
    "SELECT '<a><b></a>'::xml", "SELECT '<a>&nope;</a>'::xml", "SELECT '<wrong'::xml", "SELECT '</x><x>'::xml",
    "SELECT '</shoal><shoal>'::xml", "SELECT '<a/>]]>'::xml", "SELECT '<a b=c/>'::xml",
    "SELECT '<a b=\"1\" b=\"2\"/>'::xml",
    "SELECT '<?xml version=\"1.0\" standalone=\"maybe\"?><a/>'::xml", "SELECT xmlparse(document 'abc')",
    "SELECT xmlparse(document '<a/><b/>')", "SELECT xmlparse(content '<a')", "SELECT xpath('/a', 'text'::xml)",
    "SELECT '<!DOCTYPE a [<!ENTITY e \"&f;\"><!ENTITY f \"&e;\">]><a b=\"&e;\"/>'::xml",
)  # fmt: skip
BOMB = (
    '<!DOCTYPE a [<!ENTITY a0 "lollollollol">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]>"
)


@pytest.mark.parametrize("path", ["auto", "columnar"])
def test_wrong_texts_are_refused_as_by_postgresql(postgres: psycopg.Connection, shoal: ShoalServer, path: str) -> None:
    def outcome(connection: psycopg.Connection, statement: str) -> tuple[object, ...]:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            return error.diag.sqlstate, error.diag.message_primary
        return ()

    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        ours.execute(f"SET shoal.path = {path}".encode())
        for statement in WRONG[:: 4 if path == "columnar" else 1]:
            found = outcome(ours, statement)
            assert found and found == outcome(postgres, statement), statement


def test_entities_neither_grow_nor_read_files(shoal: ShoalServer) -> None:
    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        begun = time.monotonic()
        for text in (f"{BOMB}<a>&a9;</a>", f'{BOMB}<a b="&a9;"/>', "<a>" * 100_000 + "</a>" * 100_000):
            with pytest.raises(psycopg.errors.InvalidXmlContent):
                ours.execute("SELECT %s::xml", (text,))
        assert time.monotonic() - begun < 20
        for source in ("/etc/passwd", "http://127.0.0.1:1/x"):
            text = f'<!DOCTYPE a [<!ENTITY e SYSTEM "{source}">]><a>&e;</a>'
            assert ours.execute("SELECT xpath('/a/text()', %s::xml)::text", (text,)).fetchone() == ("{}",)


def test_long_documents_are_read_beside_the_loop(shoal: ShoalServer) -> None:
    text = "<a>" + "<b>some text</b>" * 400_000 + "</a>"  # 6 MB
    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        assert ours.execute("SELECT length(%s::xml::text)", (text,)).fetchone() == (len(text),)
        assert ours.execute("SELECT xpath('count(//b)', %s::xml)::text", (text,)).fetchone() == ("{400000}",)
        ours.execute("SET query_memory_limit = '20MB'")
        with pytest.raises(psycopg.errors.OutOfMemory):
            ours.execute("SELECT %s::xml", (text,))


def test_binary_form(postgres: psycopg.Connection, shoal: ShoalServer) -> None:
    from psycopg.types.string import TextBinaryLoader

    with psycopg.connect(shoal.dsn, autocommit=True) as ours:
        for connection in (ours, postgres):
            cursor = connection.cursor(binary=True)
            cursor.adapters.register_loader("xml", TextBinaryLoader)
            cursor.execute('SELECT \'<?xml version="1.1" encoding="latin1"?><a/>\'::xml')
            assert cursor.fetchone() == ('<?xml version="1.1"?><a/>',)
