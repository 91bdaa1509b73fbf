"""The tools of `make conformance`: scripts are cut as psql does, specs are read, and differences are found."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.conformance import beside, exchange, isolation, report, spec
from tests.conformance.regress import Regress
from tests.conformance.script import Script
from tests.conformance.suite import Outcome, Records
from tests.oracle import PostgresServer
from tests.server import ShoalServer


def cut(text: str, **environment: str) -> list[str]:
    return [statement.sql for statement in Script(text, environment)]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("select 1; select 2;", ["select 1;", "select 2;"]),
        ("select ';' as \"a;b\", $$;$$, $x$;$$;$x$, E'\\';'; -- ;\n/* ; /* ; */ ; */ select 2", None),
        ("create rule r as do also (select 1; select 2);", ["create rule r as do also (select 1; select 2);"]),
        ("select 1\\; select 2;", ["select 1; select 2;"]),
        ("begin; create function f() begin atomic select 1; select case when true then 1 end; end; commit;", None),
        ("\\d t\nselect 1;\n\\pset null x\n", ["select 1;"]),
        ("select 1 \\g\nselect 2;", ["select 1", "select 2;"]),
        ("\\set a 'x y'\nselect :'a', :\"a\", b::int, :unknown;", ["select 'x y', \"x y\", b::int, :unknown;"]),
        ("-- nothing\n;;\n/* here */;", []),
    ],
)
def test_statements_are_cut_as_psql_cuts_them(text: str, statements: list[str] | None) -> None:
    if statements is None:
        assert len(cut(text)) == (3 if text.startswith("begin") else 2)
    else:
        assert cut(text) == statements


def test_copy_takes_the_lines_behind_it() -> None:
    statements = list(Script("COPY t FROM stdin;\n1\t;\n\\.\nCOPY t TO stdout; SELECT 1;", {}))
    assert [(item.sql, item.data) for item in statements] == [
        ("COPY t FROM stdin;", "1\t;\n"),
        ("COPY t TO stdout;", ""),
        ("SELECT 1;", ""),
    ]


def test_variables_come_from_the_environment_and_from_results() -> None:
    script = Script("\\getenv a HOME_OF\n\\set f :a '/x'\nselect :'f' \\gset p_\nselect :p_f;", {"HOME_OF": "/h"})
    found = []
    for statement in script:
        found.append((statement.sql, statement.after, statement.prefix))
        script.variables["p_f"] = "7"
    assert found == [("select '/h/x'", "gset", "p_"), ("select 7;", "", "")]


SPEC = """
# a comment
setup { CREATE TABLE lt (a int primary key, b int); INSERT INTO lt VALUES (1, 0); }
teardown { DROP TABLE lt; }
session one
setup { BEGIN; }
step u1 { UPDATE lt SET b = b + 1; }
step c1 { COMMIT; }
session "two"
step u2 { UPDATE lt SET b = b + 10 RETURNING b; }
"""


def test_a_spec_without_permutations_has_all_interleavings() -> None:
    read = spec.parse(SPEC)
    assert [[turn.step for turn in turns] for turns in read.permutations] == [
        ["u1", "c1", "u2"],
        ["u1", "u2", "c1"],
        ["u2", "u1", "c1"],
    ]
    assert spec.parse(SPEC + 'permutation u1 u2(*, c1 notices 2) "c1"').permutations == [
        (spec.Turn("u1"), spec.Turn("u2", (spec.Blocker("*"), spec.Blocker("c1", 2))), spec.Turn("c1"))
    ]


def test_a_permutation_tells_who_waits(server: ShoalServer | PostgresServer) -> None:
    read = spec.parse(SPEC)
    transcript = isolation.run_permutation(server.dsn, read, read.permutations[1])
    assert [(entry[0], entry[1]) for entry in transcript if entry[0] != "setup"] == [
        ("step", "u1"),
        ("waiting", "u2"),
        ("step", "c1"),
        ("step", "u2"),
    ]
    assert transcript[-1][3] == [["rows", ["b"], [["11"]]]]


def test_differences_are_found() -> None:
    rows = [["rows", ["a"], [["1"], ["2"]]]]
    turned = [["rows", ["a"], [["2"], ["1"]]]]
    assert exchange.difference("SELECT a FROM t", rows, turned) == ""
    assert exchange.difference("SELECT a FROM t ORDER BY 1", rows, turned)
    assert exchange.difference("SELECT a FROM t", rows, [["rows", ["b"], [["1"], ["2"]]]])
    assert (
        exchange.difference("SELECT a", rows, [["error", "0A000", "x is not supported"]]) == "0A000 x is not supported"
    )
    assert exchange.difference("SELECT a", [["error", "42601", "a"]], [["error", "42601", "b"]])
    assert isolation.difference([["step", "s", "S", rows, []]], [["waiting", "s"]])


def test_what_postgresql_does_not_repeat_is_not_counted() -> None:
    suite = Regress()
    stable: Records = {"a:1": [["SELECT 1", [["rows", ["a"], [["1"]]]]]] * 2}
    volatile: Records = {"a:2": [["SELECT now()", [["rows", ["n"], [["1"]]]]], ["", [["rows", ["n"], [["2"]]]]]]}
    outcome = suite.outcome(
        stable | volatile, {"a:1": ["SELECT 1", [["error", "0A000", "SELECT is not supported"]]]}, 1
    )
    assert (outcome.size, outcome.postgres, outcome.shoal) == (2, 1, 0)
    assert report.refused([outcome]) == {"SELECT is not supported": 1}
    assert "| SELECT is not supported | 1 |" in report.markdown([outcome])


def test_a_refusal_is_named_without_the_drivers_words() -> None:
    cause = "failed: sqlalchemy.exc.NotSupportedError: (psycopg.errors.FeatureNotSupported) type x is not supported"
    fields = "failed: pg8000.ProgrammingError: {'S': 'ERROR', 'C': '0A000', 'M': 'type x is not supported', 'R': 'f'}"
    outcome = Outcome("s", "S", "tests", 1, 1, 0, 0.9, 1.0, {"t": cause, "u": fields})
    assert report.refused([outcome]) == {"type x is not supported": 2}


@pytest.fixture
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path))
    return tmp_path


def test_a_suite_that_raises_is_told_as_broken_off(own_cache: pathlib.Path) -> None:
    def run() -> Outcome:
        raise RuntimeError("the server is gone\nand more")

    place = own_cache / "outcome"
    assert beside.write_outcome(isolation.Isolation(), run, place) == 1
    outcome = Outcome(**json.loads(place.read_text()))
    assert (outcome.broken, outcome.share) == ("the server is gone", 0.0)
    assert "RuntimeError" in (own_cache / "broken-isolation").read_text()
    assert "broke off: the server is gone" in report.table([outcome])
    assert "| broke off: the server is gone |" in report.markdown([outcome])


def test_a_suite_that_dies_or_does_not_end_does_not_keep_others(own_cache: pathlib.Path) -> None:
    unknown = isolation.Isolation()
    unknown.name = "unknown"
    no_time = {"unknown": 60.0, "isolation": -beside.GRACE}
    found = beside.run_beside([isolation.Isolation(), unknown], 2, lambda suite: no_time[suite.name], [])
    assert {outcome.name: outcome.broken for outcome in found} == {
        "isolation": "did not come to its end in time",
        "unknown": "its process ended with status 2",
    }


def test_a_suite_that_was_cut_short_is_compared_as_far_as_it_went() -> None:
    suite = isolation.Isolation()
    step = ["step", "a", "select 1", [["rows", ["a"], [["1"]]]], []]
    wanted = {"x:1": [step], "x:2": [step], "x:3": [step]}
    whole = suite.outcome(wanted, {"x:1": [step]}, 1.0)
    assert (whole.postgres, whole.shoal, whole.unit) == (3, 1, "permutations")
    suite.cut = True
    cut = suite.outcome(wanted, {"x:1": [step], "x:2": []}, 1.0)
    assert (cut.size, cut.postgres, cut.shoal) == (3, 2, 1)
    assert cut.unit == "permutations, 2 of them in the time"
