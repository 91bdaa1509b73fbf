"""Where statements end in a text."""

from __future__ import annotations

import pytest

from shoal.commands.sql_text import statements, statements_of

BODY = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END"


@pytest.mark.parametrize(
    ("text", "ended", "rest"),
    [
        ("", [], ""),
        (" ; ;", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT 'a;b''c;', \"d;e\";", ["SELECT 'a;b''c;', \"d;e\""], ""),
        (r"SELECT E'a\';b', type'a\'; SELECT 2", [r"SELECT E'a\';b', type'a\'"], "SELECT 2"),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("SELECT $$a;$x$;$$; SELECT $x$;$$;$x$;", ["SELECT $$a;$x$;$$", "SELECT $x$;$$;$x$"], ""),
        ("SELECT $x$;", [], "SELECT $x$;"),
        ("SELECT a$x$; SELECT b", ["SELECT a$x$"], "SELECT b"),
        ("SELECT 1 -- ;\n; -- end;", ["SELECT 1 -- ;"], ""),
        ("SELECT /* ; /* ; */ ; */ 1;", ["SELECT /* ; /* ; */ ; */ 1"], ""),
        ("/* open ;", [], ""),
        ("SELECT /* open ;", [], "SELECT /* open ;"),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);", 1, ""),
        (f"{BODY}; SELECT 3;", [BODY, "SELECT 3"], ""),
        ("BEGIN; SELECT CASE WHEN true THEN 1 END; END;", 3, ""),
    ],
)
def test_statements_end_where_psql_ends_them(text: str, ended: list[str] | int, rest: str) -> None:
    found, left = statements(text)
    assert (len(found) if isinstance(ended, int) else found) == ended
    assert left == rest


def test_a_text_in_another_dialect_is_split_by_its_own_strings() -> None:
    text = "SELECT 'it\\'s;', `a;b`, \"c;d\"; -- e;\nSELECT 2"
    assert statements_of(text, "mysql") == (["SELECT 'it\\'s;', `a;b`, \"c;d\""], "SELECT 2")
    assert statements_of("SELECT 1;", "mysql") == (["SELECT 1"], "")
    assert statements_of("SELECT 'a;", "mysql") == ([], "SELECT 'a;")  # goes on, or is an error of the server
    assert statements_of("SELECT 1; SELECT 2", "shoal") == statements("SELECT 1; SELECT 2")
