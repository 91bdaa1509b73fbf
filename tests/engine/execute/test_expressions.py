"""Expressions compiled to Python give what PostgreSQL gives, over constants and over columns with NULLs."""

from __future__ import annotations

import warnings

import pytest

from tests.engine.execute.mirror import Mirror

CONSTANTS = """
1 + 1
2147483647 + 1
1 / 0
7 / -2
-7 % 3
'x' || 'y'
null::int + 1
null::int
'2' :: int + 1
12.50::int
'abc'::varchar(2)
'abc'::char(5) || '|'
1.10 + 2.205
case when true then 'a' else 'b' end
case 3 when 1 then 'one' when 3 then 'three' end
case 9 when 1 then 'one' end
case when null then 1 else 2 end
coalesce(null, null, 3)
coalesce(null::int, null)
nullif(1, 1)
nullif(1, 2)
nullif(null::int, 2)
nullif(1, null)
greatest(1, null, 3)
least('b', 'a')
greatest(null::int, null)
true and null
false and null
true or null
null or false
not null::bool
1 is distinct from null
null is distinct from null
1 is not distinct from 1
null is null
(1, null) is null
(1, null) is not null
row(null, null) is null
5 = any(array[1, null, 5])
5 = any(array[1, null])
5 = all(array[5, 5])
5 <> all(array[2, null])
5 > any(array[6, 7])
3 in (1, 2, 3)
3 not in (1, 2, null)
(array[1, 2, 3])[2]
(array[[1, 2], [3, 4]])[2][1]
(array[1, 2, 3])[2:]
(array[1, 2, 3])[null]
array[1, null, 3]
array[array[1, 2], array[3, 4]]
array[array[1], array[2, 3]]
array[1.5, 2]::int[]
(1, 2) < (1, 3)
(1, null) < (2, 0)
(1, null) < (1, 0)
(1, 2) = (1, 2)
'abc' like 'a%'
'abc' not like 'a_'
'ABC' ilike 'a%'
'abc' ~ '^a'
'abc' between 'a' and 'b'
true is true
null::bool is not false
null::bool is unknown
'f'::bool
abs(-5), length('abc'), upper('abc')
substring('hello' from 2 for 3)
'{1,2}'::int[] || 3
current_user
""".strip().splitlines()

OVER_ROWS = """
coalesce(a, -1), nullif(a, 20), nullif(20, a), greatest(a, id), least(a, id)
- coalesce(a, id), abs(coalesce(a, -id)) + 1, -case when a > 15 then a end, -nullif(coalesce(a, id), 1)
a is distinct from 20, a is not distinct from null, b is distinct from 'one'
a = 20, a <> 20, not (a = 20), not c, c and a = 20, c or a = 20, c is true, c is not false
case a when 20 then 'twenty' when 10 then b else 'other' end
case when a > 10 then a when c then -1 end
a in (10, id * 10), a in (10, null), a not in (10, 20), a = any(array[a, null]), a = all(array[a, 20])
array[a, id], array[a, id] || id, (array[a, id])[2]
(a, id) < (20, 3), (a, b) >= (20, 'two'), (id, a) = (2, 20)
a::text || b, d::int, d::text, id::varchar(1), (a * 1.5)::numeric(10, 1)
b like '%o%', b like b, upper(b), length(b), b || null
a + id - 1, -a, a * a / id, d * 2, d / 3
(a, b) is null, (a, b) is not null
coalesce(a, 1/0)
case when a is null then 1 else a / (a - 70) end
""".strip().splitlines()


@pytest.mark.parametrize("expression", CONSTANTS)
def test_constants(mirror: Mirror, expression: str) -> None:
    mirror.statement(f"select {expression}")


@pytest.mark.parametrize("expressions", OVER_ROWS)
def test_over_columns(mirror: Mirror, expressions: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyntaxWarning)  # generated code that compares literals would be sloppy
        mirror.statement(f"select id, {expressions} from t")


@pytest.mark.parametrize("expressions", OVER_ROWS)
def test_as_conditions(mirror: Mirror, expressions: str) -> None:
    for negation in ("", "not "):
        conditions = [part for part in expressions.split("), ") if part.startswith(("a =", "c ", "b like 'x"))]
        for condition in conditions:
            mirror.statement(f"select id from t where {negation}({condition.split(', ')[0]})")
