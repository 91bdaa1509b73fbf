"""Numbers and strings: text and binary forms, errors included, as PostgreSQL has them."""

from __future__ import annotations

import random
import struct

import psycopg
import pytest

from catalog.errors import SqlError
from catalog.types import FormatSettings, lookup, oids
from tests.catalog.types.oracle_codec import assert_same
from tests.samples import Part, parts

INTEGERS = """0|1|-1|+7| 12 |\t12\n|007|32767|32768|-32768|-32769|2147483647|2147483648|-2147483648|-2147483649
9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|99999999999999999999999|1_000|0x10
١٢|abc||  |-|+|--1|1.5|1e3|99999999999x|32768x|65536x|1 2|00000000000000000000000000000001|-0|- 1|12a| x12"""


def words(text: str) -> list[str]:
    return [word for line in text.split("\n") for word in line.split("|")]


@pytest.mark.parametrize("name", ["int2", "int4", "int8"])
def test_integers(postgres: psycopg.Connection, name: str) -> None:
    assert_same(postgres, getattr(oids, name.upper()), name, words(INTEGERS))


def test_oid(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.OID, "oid", [*words(INTEGERS), "4294967295", "4294967296", "-2147483648"])


@pytest.mark.parametrize("name", ["xid", "cid", "xid8"])
def test_transaction_ids(postgres: psycopg.Connection, name: str) -> None:
    literals = ["0", "1", "-1", "0x10", "010", "abc", "", "42x", " 7", "4294967295"]
    assert_same(postgres, getattr(oids, name.upper()), name, literals)


def test_booleans(postgres: psycopg.Connection) -> None:
    literals = words("t|f|true|FALSE|tr|tru|y|yes|ye|n|no|on|off|of|o|1|0| true |truex|yess|2||11|N|TRUE \n|ｔ")
    assert_same(postgres, oids.BOOL, "bool", literals)


FLOATS = """0|-0|1|1.5|-1.5|.5|5.|.|1e5|1e+5|1E-5|0.0001|0.00001|0.001|123456|999999|1000000|1234567|12345678|16777216
16777217|16777219|100000000000000|999999999999999|1000000000000000|1234567890123456|9007199254740993|1e15|1e16|1e22
1e23
1.7976931348623157e308|1e308|1e309|1e39|3.4028235e38|3.4028236e38|3.5e38|1e-45|1e-46|7e-46|1e-320|1e-323|1e-324|1e-400
nan|NaN|NAN|infinity|-Infinity|inf|+inf|-inf|0x1p3|0x10|0x1.8|abc|| |1e|1e5x|1 2|--1|1_0|١|0.1|0.2|0.3|1e-7
 1.5 |0e5|0e400|-0.0e-999|0.30000000000000004|3.141592653589793|2.718281828459045|1.17549435e-38|4.9e-324|65504|1e6
1e7
0.1000000014901161156|1.00000017881393421514957253748434595763683319091796875001|8388608.5|8388609.5|infinit|in"""


@pytest.mark.parametrize("name", ["float4", "float8"])
def test_floats(postgres: psycopg.Connection, name: str) -> None:
    assert_same(postgres, getattr(oids, name.upper()), name, words(FLOATS))


def test_random_floats_of_every_magnitude(postgres: psycopg.Connection) -> None:
    dice = random.Random(4)
    doubles = [struct.unpack("<d", dice.randbytes(8))[0] for _ in range(2000)]
    singles = [struct.unpack("<f", dice.randbytes(4))[0] for _ in range(2000)]
    singles += [2.0**power for power in range(-149, 128)] + [10.0**power for power in range(-37, 38)]
    doubles += [2.0**power for power in range(-1074, 1023, 7)] + [10.0**power for power in range(-307, 308)]
    assert_same(postgres, oids.FLOAT8, "float8", [repr(value) for value in doubles])
    assert_same(postgres, oids.FLOAT4, "float4", [repr(value) for value in singles])


NUMERICS = """0|-0|-0.00|1|1.10|-1.10|+3|.5|5.|.|1e5|1e-5|1.5e3|1.5E+2|1e|1e+|1e5x|12345678901234567890123.12345678
0.0000000001|NaN|nan|-nan|+nan|infinity|-inf|+Infinity|inf|infinit| 12 |1_000|abc|| |--1|1 2|1e131071|1e131072
1e-16383
1e-16384|0e-16384|0e200000|1e9999999999|1e-9999999999|0e9999999999|9999|10000|100000000|0.0001|0.00010|1234.5678
12345.06
99999.5|-99999.5|0.1e1|00012.3400|1.e3|.e3|١|1٫5"""


def test_numerics(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.NUMERIC, "numeric", words(NUMERICS))


@pytest.mark.parametrize("part", parts(2))
def test_numerics_of_many_characters(postgres: psycopg.Connection, part: Part) -> None:
    zeros, digits = "0" * 2_000_000, "7" * 300_000
    literals = [
        f"{sign}{zeros}{end}" for sign in ("", "-", "+", "--") for end in ("", "1.50", ".5", "-1", "x", " 1", "e5")
    ]
    literals += [digits, f"-{digits}", f"0.{digits}", f"{digits}.5", f"{digits}e-290000", f"{digits}x", f"{digits}ex"]
    literals += [f"1e{digits}", f"1x{digits}", f"e{digits}", f".{digits}", f"{digits}..1", f"{' ' * 300_000}-1.0 "]
    assert_same(postgres, oids.NUMERIC, "numeric", part.of(literals))


@pytest.mark.parametrize("modifier", [(5, 2), (3, 0), (3, -2), (2, 4), (1000, 1000), (10, 10), (38, 38)])
def test_numerics_with_modifier(postgres: psycopg.Connection, modifier: tuple[int, int]) -> None:
    precision, scale = modifier
    typmod = (precision << 16 | scale & 0x7FF) + 4
    literals = """0|1|-1|999.994|999.995|999.99|1000|-999.995|0.005|-0.004|0.0049|123456|99949|99950|49|50|-50|NaN|inf
-inf|0.00994|0.009949|0.00995|0.0099995|1.5|2.5|-2.5|0.5|12345.678|999|999.5|1e-20|0.9999999999|0.99999999995"""
    assert_same(postgres, oids.NUMERIC, f"numeric({precision},{scale})", words(literals), typmod)


STRINGS = [
    "",
    "a",
    "abc",
    "abcde",
    "abc  ",
    "ab   ",
    "abcdef",
    "äöü",
    "äöüßx",
    "  ",
    "日本語",
    "a\nb",
    "'quoted'",
    "\\x",
]


@pytest.mark.parametrize(
    ("oid", "declared", "typmod"),
    [
        (oids.TEXT, "text", -1),
        (oids.VARCHAR, "varchar", -1),
        (oids.BPCHAR, "bpchar", -1),
        (oids.NAME, "name", -1),
    ],
)
def test_strings(postgres: psycopg.Connection, oid: int, declared: str, typmod: int) -> None:
    assert_same(postgres, oid, declared, [*STRINGS, "x" * 100, "ä" * 40, "x" + "ä" * 40], typmod)


@pytest.mark.parametrize("length", [1, 4, 5])
def test_strings_with_length(postgres: psycopg.Connection, length: int) -> None:
    for oid, declared in ((oids.VARCHAR, "varchar"), (oids.BPCHAR, "char")):
        query = f"select array_agg(s::{declared}({length})::text) from unnest($1::text[]) as s"
        expected = psycopg.RawCursor(postgres).execute(query, (STRINGS,)).fetchone()
        coerce = lookup(oid).length_coercion(length + 4, explicit=True)
        assert coerce is not None and expected is not None
        shown = [str(coerce(text)) for text in STRINGS]
        assert [text.rstrip(" ") if declared == "char" else text for text in shown] == expected[0]


def test_assignment_of_too_long_strings(postgres: psycopg.Connection) -> None:
    for oid, declared in ((oids.VARCHAR, "varchar"), (oids.BPCHAR, "char")):
        postgres.execute(f"create temp table sized_{declared} (v {declared}(4))")
        for text in STRINGS:
            try:
                ours = str(lookup(oid).text_decoder(typmod=8)(text))
            except SqlError as error:
                ours = f"{error.sqlstate} {error.message}"
            try:
                row = postgres.execute(
                    f"insert into sized_{declared} values (%s) returning textin({declared_out(declared)}(v))", (text,)
                ).fetchone()
                theirs = str(row[0]) if row else ""
            except psycopg.Error as error:
                theirs = f"{error.sqlstate} {error.diag.message_primary}"
            assert ours == theirs


def declared_out(declared: str) -> str:
    return {"varchar": "varcharout", "char": "bpcharout"}[declared]


def test_single_byte_characters(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.CHAR, '"char"', ["a", "", "ab", " ", "\\"])


BYTES = """abc|\\x|\\x00ff|\\xFF 00\n11|\\x0|\\x0g|\\xg0|\\x0 0|\\\\|a\\000b|\\377|\\400|\\a|a\\|\\x é|ü|\\X00"""


def test_octets(postgres: psycopg.Connection) -> None:
    literals = [*BYTES.split("|"), "\\x" + bytes(range(256)).hex(), ""]
    assert_same(postgres, oids.BYTEA, "bytea", literals)
    postgres.execute("set bytea_output = escape")
    assert_same(postgres, oids.BYTEA, "bytea", literals, settings=FormatSettings(bytea_output="escape"))


def test_uuids(postgres: psycopg.Connection) -> None:
    plain = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    literals = [plain, plain.upper(), plain.replace("-", ""), "{" + plain + "}", "{" + plain, plain + "}", plain[:-1]]
    literals += [
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        plain + "-",
        "",
        "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
        " " + plain,
    ]
    literals += ["a0eebc999c0b4ef8-bb6d6bb9bd380a11", plain + "\n", " " + plain, "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]
    assert_same(postgres, oids.UUID, "uuid", literals)


def test_log_positions_and_row_ids(postgres: psycopg.Connection) -> None:
    literals = ["0/0", "16/B374D848", "ffffffff/FFFFFFFF", "1/", "/1", "100000000/0", "", "g/0", " 0/0", "0/0 "]
    assert_same(postgres, oids.PG_LSN, "pg_lsn", literals)
    assert_same(postgres, oids.TID, "tid", ["(0,0)", "(4294967295,65535)", "(1,2", "1,2", "(a,b)", "(0,65536)", ""])


ADDRESSES = """192.168.1.5|192.168.1.5/24|192.168.1/24|10/8|10|10.1/16|10.1/24|1.2.3.4/33|1.2.3.256|01.2.3.4
1.2.3.4/0|1.2.3.4/
::|::1|::1/128|FE80::1/64|::ffff:1.2.3.4|::1.2.3.4|1:0:0:2::|1::2:0:0:3|2001:db8:0:1:1:1:1:1|1:2:3:4:5:6:7:8|1:2:3
:::|g::1
::1/129|1.2.3.4.5||abc|0.0.0.0|255.255.255.255/32|2001:DB8::A/48|::ffff:0:0|0:0:0:0:0:0:0:0/0|::2:3|1:2:3:4:5:6:7::
::fffe:1:2"""


def test_network_addresses(postgres: psycopg.Connection) -> None:
    assert_same(postgres, oids.INET, "inet", words(ADDRESSES))


def test_types_of_the_system_catalogs_are_shown_only() -> None:
    for oid in (oids.ACLITEM, oids.PG_NODE_TREE, oids.ANYARRAY):
        assert lookup(oid).text_encoder()("postgres=r/postgres") == b"postgres=r/postgres"
        with pytest.raises(SqlError, match="cannot accept a value"):
            lookup(oid).text_decoder()("x")
