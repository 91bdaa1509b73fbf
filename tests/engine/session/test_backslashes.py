"""standard_conforming_strings = off, beside PostgreSQL: backslashes in plain strings."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_backslashes_escape_in_plain_strings(both_paths: Pair) -> None:
    both_paths.run("create table t (id int primary key, v text, b bytea)", r"insert into t values (0, 'x\y', null)")
    both_paths.same(r"select 'a\\b', 'it''s' as s", r"select id from t where v = 'x\y'")
    both_paths.run("set standard_conforming_strings = off")
    both_paths.same(
        "show standard_conforming_strings",
        r"select 'a\\bcd' as f1, 'a\\b\'cd' as f2, 'a\\b\'''cd' as f3, 'abcd\\' as f4, 'ab\\\'cd' as f5, '\\\\' as f6",
        r"select 'tab\there' as a, 'octal\101' as b, 'hex\x41' as c, 'u\u0041' as d",
        "select 'con'\n'tin\\\\ued' as c",
        r"select E'a\\b' as a, $$a\\b$$ as b",
        r"select U&'\0061'",
        r'select U&"\0061" from (select 1 as a) q',
        r'select 1 as "a\b"',
        r"insert into t values (1, 'x\\y', '\\x6162'), (2, 'q', 'abc\\000')",
        r"select * from t where v = 'x\\y'",
        r"select id from t where v like '%\\\\%'",
        "select id from t where v = 'q'",
        "select id from t where v = 'q'",
        r"update t set v = '\'' where id = 2",
        "select * from t",
        r"prepare p(text) as select id, $1 || '\\' as s from t where v = '\''",
        r"execute p('\\')",
        r"select 'unterminated\'",
        r"select '\u00'",
    )
    both_paths.run("set standard_conforming_strings = on")
    both_paths.same(
        r"select 'a\\b' as a, U&'\0061' as b", r"select id from t where v = 'x\y'", r"execute p('\\')", "deallocate p"
    )
