"""Functions of the session over more rows than the row path visits; functions of aggregates called by themselves."""

from __future__ import annotations

from tests.engine.session.conftest import Pair
from tests.engine.storage.samples import SAMPLES

ROWS = 10_000
QUERIES = (
    "SELECT a, nextval('s') FROM big ORDER BY c LIMIT 5", "SELECT last_value FROM s",
    "SELECT * FROM (SELECT DISTINCT b FROM big) q WHERE b < 10 + nextval('s') ORDER BY 1", "SELECT nextval('s')",
    "SELECT nextval('s'), b, count(*) FROM big GROUP BY b ORDER BY b",
    "SELECT nextval('s'), rank() OVER (ORDER BY c) FROM big ORDER BY 2 LIMIT 3",
    "SELECT count(*), max(n) - min(n) FROM (SELECT nextval('s') n FROM big) q",
    "SELECT a FROM big WHERE nextval('s') > 0 AND a > 9990 ORDER BY a",
    "SELECT nextval('s') > 0, sum(a) FROM big", "SELECT currval('s') > 0, a FROM big ORDER BY c DESC LIMIT 2",
    "WITH w AS (SELECT a FROM big ORDER BY c LIMIT 4)"
    " SELECT nextval('s') > 0, w.a, (SELECT count(*) FROM big WHERE big.a < w.a) FROM w ORDER BY a",
    "SELECT count(*) FROM (SELECT pg_advisory_xact_lock(a) FROM big WHERE a < 9000) q",
    "SELECT DISTINCT nextval('s') > 0 FROM big",
    "SELECT DISTINCT ON (b) b, nextval('s') > 0, a FROM big ORDER BY b, a DESC",
    "SELECT nextval('s') > 0 UNION SELECT nextval('s') > 1 FROM big",
    "SELECT x.b, count(*) FROM (SELECT nextval('s') > 0 AS n, b FROM big) x"
    " JOIN (SELECT DISTINCT b FROM big) y USING (b) WHERE n GROUP BY x.b ORDER BY 1",
    "INSERT INTO z SELECT nextval('s') * 0, a FROM big ORDER BY c LIMIT 3 RETURNING *",
    "CREATE TABLE y AS SELECT nextval('s') n, a FROM big ORDER BY c LIMIT 9000", "SELECT count(DISTINCT n) FROM y",
    "SELECT setval('s', max(a)) FROM big", "SELECT nextval('s')",
)  # fmt: skip


def test_calls(pair: Pair) -> None:
    pair.run(
        "CREATE SEQUENCE s", "CREATE TABLE z (n bigint, a int)",
        f"CREATE TABLE big AS SELECT g AS a, g % 10 AS b, (g * 7919) % {ROWS} AS c FROM generate_series(1, {ROWS}) g",
    )  # fmt: skip
    pair.same(*QUERIES)


STATES = ("'{4,140,2900}'", "'{0,1,2}'", "'{1,2}'", "'{1,2,1e308}'", "NULL", "'{3,inf,nan}'", "'{3,60,200}'")
LONG_STATES = ("'{4,140,2900,1290,83075,15050}'", "'{0,0,0,0,0,0}'", "'{1,2,3}'", "'{2,180,200,740,57800,-3400}'")
VALUES = ("100", "'inf'", "'nan'", "-1e200", "NULL")


def test_functions_of_aggregates(pair: Pair) -> None:
    """They take the states of others, as of aggregates that users make of them."""
    for state in STATES:
        pair.same(*(f"SELECT float8_accum({state}, {value})::text, {value}::text" for value in VALUES))
        pair.same(*(f"SELECT float8_combine({state}, {other})::text" for other in STATES))
    for state in LONG_STATES:
        pair.same(*(f"SELECT float8_regr_accum({state}, {value}, 3)::text" for value in VALUES))
        pair.same(*(f"SELECT float8_regr_accum({state}, 3, {value})::text" for value in VALUES))
        pair.same(*(f"SELECT float8_regr_combine({state}, {other})::text" for other in LONG_STATES))
    pair.run("CREATE AGGREGATE own (float8) (SFUNC = float8_accum, STYPE = float8[], INITCOND = '{0,0,0}')")
    pair.same("SELECT own(x) FROM generate_series(1, 9) x")


def test_parameters_of_sequences(pair: Pair) -> None:
    pair.run("CREATE SEQUENCE down INCREMENT -3 CYCLE CACHE 5", "CREATE SEQUENCE small AS int MINVALUE 3")
    pair.same(
        "SELECT * FROM pg_sequence_parameters('down'::regclass)",
        "SELECT * FROM pg_sequence_parameters('small'::regclass)",
        "SELECT minimum_value, data_type::regtype, c.relname FROM pg_class c, pg_sequence_parameters(c.oid)"
        " WHERE relname IN ('down', 'small')",
        "SELECT * FROM pg_sequence_parameters(1)",
    )


VALUES = {
    **{name: texts[0] for name, texts in SAMPLES.items()},
    "regclass": "pg_class", "regtype": "integer", "regproc": "now", "regprocedure": "abs(integer)",
    "regrole": "postgres", "regnamespace": "pg_catalog", "regoper": "pg_catalog.||/",
    "regoperator": "+(integer,integer)", "regconfig": "english", "regdictionary": "simple", "regcollation": '"C"',
    "int4[]": "{1,NULL}", "regclass[]": "{pg_class}", "int4range": "[1,3)", "int4multirange": "{[1,3)}",
}  # fmt: skip


def test_values_of_every_type_go_between_the_parts(both_paths: Pair) -> None:
    """A part hands over values, names of objects among them, and not their texts."""
    both_paths.run("CREATE SEQUENCE s", "CREATE TABLE t (n int)", "INSERT INTO t SELECT generate_series(1, 3)")
    both_paths.same(
        *(
            f"SELECT v, nextval('s') > 0 FROM (SELECT CASE WHEN n < 3 THEN '{text}'::{name} END v, n, rank() OVER ()"
            " FROM t) q ORDER BY n"
            for name, text in VALUES.items()
        )
    )
