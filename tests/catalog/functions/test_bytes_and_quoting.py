"""bytea, encodings, digests, quoting, concat, format and series against PostgreSQL."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg

from catalog.errors import SqlError
from catalog.functions import registry
from catalog.types import lookup, pg_type_by_name
from catalog.types.base import TypeRef
from tests.catalog.functions.calling import CONTEXT, Call, calls, check, decode, encode, postgres_answers, quote

BYTES = ("", "\\x00", "\\x6162", "\\xff00fe", "\\x5c41", "\\x2020612020")


def test_bytes(postgres: psycopg.Connection[Any]) -> None:
    found = calls("length octet_length bit_length bit_count md5 sha224 sha256 sha384 sha512", "bytea", BYTES)
    found += calls("|| = <> < <= > >= ~~ position btrim ltrim rtrim", "bytea bytea", BYTES, BYTES)
    found += calls("substr", "bytea int4", BYTES, ("0", "1", "2", "-1"))
    found += calls("substr", "bytea int4 int4", BYTES, ("0", "2", "-1"), ("0", "1", "5", "-1"))
    found += calls("overlay", "bytea bytea int4", BYTES, BYTES[:3], ("0", "1", "2"))
    found += calls("get_byte", "bytea int4", BYTES, ("0", "1", "-1", "9"))
    found += calls("get_bit", "bytea int8", BYTES, ("0", "7", "8", "-1", "99"))
    found += calls("set_byte", "bytea int4 int4", BYTES, ("0", "1"), ("65", "300"))
    found += calls("set_bit", "bytea int8 int4", BYTES, ("0", "9"), ("0", "1", "2"))
    check(postgres, found)


def test_encodings(postgres: psycopg.Connection[Any]) -> None:
    forms = ("hex", "base64", "escape", "HEX", "nope")
    texts = ("", "6162", "616", "zz", "YWI=", "YWI", "YQ==", "Y Q = =", "Y===", "a\\000b", "a\\\\b", "a\\9", "é",
             "====",
             "YW=I", "YW==YWJj")  # fmt: skip
    found = calls("encode", "bytea text", (*BYTES, "\\x" + "41" * 100), forms)
    found += calls("decode", "text text", texts, forms)
    found += calls("md5", "text", ("", "abc", "é"))
    found += calls("convert_from", "bytea name", ("\\x6162", "\\xc3a9", "\\xff"), ("UTF8", "LATIN1", "utf-8", "nope"))
    found += calls("convert_to", "text name", ("ab", "é"), ("UTF8", "LATIN1"))
    check(postgres, found)


def test_quoting(postgres: psycopg.Connection[Any]) -> None:
    texts = ("", "a", "A", "select", "name", "a b", "a'b", 'a"b', "a\\b", "é", "_x1", "1x", "user", "int")
    check(postgres, calls("quote_ident quote_literal quote_nullable", "text", texts))


def answer(name: str, types: tuple[str, ...], arguments: tuple[str | None, ...]) -> str:
    function = registry.functions_named(name)[0]
    found = registry.implementation(function.source)
    assert found is not None and found.python_for_types is not None
    references = [TypeRef(pg_type_by_name[item].oid) for item in types]
    run = found.python_for_types(references, TypeRef(function.result_type))
    try:
        return encode(25, run(CONTEXT, *(decode(t, a) for t, a in zip(types, arguments, strict=True))))
    except SqlError as error:
        return f"error {error.sqlstate} {error.message}"


def test_variadic_text_functions(postgres: psycopg.Connection[Any]) -> None:
    rows: list[tuple[str, tuple[str, ...], tuple[str | None, ...]]] = [
        ("concat", ("text", "int4", "bool"), ("a", "5", "t")),
        ("concat", ("text", "numeric", "float8"), (None, "1.50", "1e20")),
        ("concat_ws", ("text", "text", "int4", "text"), (",", "a", None, "b")),
        ("concat_ws", ("text", "text"), (None, "a")),
    ]
    templates = ("%s", "%s-%s", "%I", "%L", "%%", "%", "%x", "%1$s %1$s", "%2$s %s", "%10s|", "%-10s|", "%*s|", "%0$s",
                 "%s %s %s", "%2$*1$s", "plain", "%3$s", "%-*s|", "a%5%b", "%1$10L|")  # fmt: skip
    for template, pair in itertools.product(templates, (("3", "x y"), ("-4", None), ("2", "Table"))):
        rows.append(("format", ("text", "int4", "text"), (template, *pair)))
    expected = postgres_answers(postgres, [Call(*row).sql() for row in rows])
    mine = [answer(*row) for row in rows]
    different = [f"{row}: {m} instead of {e}" for row, m, e in zip(rows, mine, expected, strict=True) if m != e]
    assert not different, "\n".join(different)


def series(name: str, types: tuple[str, ...], arguments: tuple[str, ...]) -> str:
    oids = tuple(pg_type_by_name[item].oid for item in types)
    function = next(f for f in registry.functions_named(name) if f.argument_types == oids)
    found = registry.implementation(function.source)
    assert found is not None and found.python is not None
    encoder = lookup(function.result_type).text_encoder()
    try:
        rows = found.python(*(decode(t, a) for t, a in zip(types, arguments, strict=True)))
        return "value {" + ",".join(encoder(row).decode() for row in rows) + "}"  # type: ignore[attr-defined]
    except SqlError as error:
        return f"error {error.sqlstate} {error.message}"


def test_series(postgres: psycopg.Connection[Any]) -> None:
    both = (("1", "5"), ("5", "1"), ("1", "10", "3"), ("5", "1", "-2"), ("1", "2", "0"))
    cases = [(name, arguments) for name in ("int4", "int8", "numeric") for arguments in both]
    cases += [("int4", ("2147483645", "2147483647", "2")), ("int4", ("-2147483647", "-2147483648", "-1"))]
    cases += [("int8", ("9223372036854775806", "9223372036854775807"))]
    odd = (("1.1", "2.0", "0.25"), ("1", "NaN"), ("Infinity", "1"), ("1", "2", "NaN"), ("3", "1", "-0.5"))
    cases += [("numeric", arguments) for arguments in odd]
    sql = [f"ARRAY(SELECT generate_series({', '.join(quote(a) + '::' + name for a in args)}))" for name, args in cases]
    expected = postgres_answers(postgres, sql)
    assert [series("generate_series", (name,) * len(args), args) for name, args in cases] == expected
