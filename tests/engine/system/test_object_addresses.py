"""pg_get_object_address beside PostgreSQL: the way back from every object of a rich schema and of what is built in,
names as they may be written, and what it says of what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.system.conftest import Pair, rich_pair
from tests.engine.system.test_identities import _IN_SCHEMA, _MORE, _WHOLE
from tests.oracle import PostgresServer
from tests.server import ShoalServer

_SOME = {
    "pg_operator": " WHERE o.oid::int % 9 = 0",
    "pg_amop": " WHERE o.oid::int % 9 = 0",
    "pg_amproc": " WHERE o.oid::int % 9 = 0",
}
_ADDRESSES = {
    **{name: f"SELECT '{name}'::regclass::oid, o.oid, 0 FROM {name} o{_SOME.get(name, '')}" for name in _WHOLE},
    **{
        name: f"SELECT '{name}'::regclass::oid, o.oid, 0 FROM {name} o,"
        f" pg_identify_object('{name}'::regclass, o.oid, 0) x WHERE x.identity ~ 'rich'"
        for name in _IN_SCHEMA
    },
    "roles": "SELECT 1260::oid, oid, 0 FROM pg_authid WHERE rolname ~ '^rich'",
    "defaults": "SELECT 2604::oid, o.oid, 0 FROM pg_attrdef o",
    "columns": "SELECT 1259::oid, attrelid, attnum FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
    " WHERE attnum > 0 AND relnamespace = 'rich'::regnamespace",
    "functions": "SELECT 1255::oid, oid, 0 FROM pg_proc WHERE oid < 16384 AND oid::int % 31 = 0",
    "types": "SELECT 1247::oid, oid, 0 FROM pg_type WHERE typtype = 'b' AND oid < 10000",
    "views": "SELECT 1259::oid, oid, 0 FROM pg_class WHERE relname ~ '^pg_stat' AND relkind = 'v'",
    "large objects": "SELECT 2613::oid, oid, 0 FROM pg_largeobject_metadata",
}
_WRITTEN = (
    ("table", "{parent}", "{}"), ("table", "{rich,parent}", "{}"), ("table", "{plain2}", "{}"),
    ("view", "{parent}", "{}"), ("table", "{rich,none}", "{}"), ("table", "{none,parent}", "{}"),
    ("table", "{a,b,c}", "{}"), ("index", "{parent}", "{}"), ("table", "{a,b,c,d}", "{}"),
    ("sequence", "{counter}", "{}"), ("table column", "{parent,id}", "{}"), ("table column", "{parent,none}", "{}"),
    ("table column", "{parent}", "{}"), ("default value", "{parent,name}", "{}"),
    ("default value", "{parent,p}", "{}"), ("table constraint", "{parent,two_columns}", "{}"),
    ("table constraint", "{parent,none}", "{}"), ("rule", "{plain2,_RETURN}", "{}"), ("rule", "{parent,none}", "{}"),
    ("type", "{int}", "{}"), ("type", "{integer}", "{}"), ("type", "{mood}", "{}"), ("type", "{rich.mood[]}", "{}"),
    ("type", "{none}", "{}"), ("type", "{a,b}", "{}"), ("type", "{}", "{}"), ("type", "{NULL}", "{}"),
    ("domain", "{positive}", "{}"), ("domain", "{mood}", "{}"), ("domain constraint", "{positive}", "{above_zero}"),
    ("domain constraint", "{positive}", "{none}"), ("domain constraint", "{positive}", "{}"),
    ("function", "{plus_one}", "{int}"), ("function", "{plus_one}", "{text}"),
    ("function", "{rich,plus_one}", "{int4}"), ("function", "{nothing}", "{int,text}"),
    ("procedure", "{nothing}", "{int,text}"), ("procedure", "{plus_one}", "{int}"),
    ("routine", "{nothing}", "{int,text}"), ("aggregate", "{sum}", "{int}"), ("aggregate", "{plus_one}", "{int}"),
    ("function", "{lower}", "{text}"), ("function", "{lower}", "{NULL}"), ("function", "{lower}", "{none}"),
    ("operator", "{+}", "{int,int}"), ("operator", "{+}", "{int}"), ("operator", "{+}", "{int,text}"),
    ("operator", "{pg_catalog,+}", "{int8,int8}"), ("cast", "{int}", "{bool}"), ("cast", "{bool}", "{text}"),
    ("cast", "{date}", "{int}"), ("cast", "{date}", "{}"), ("collation", "{german}", "{}"),
    ("collation", "{C}", "{}"), ("collation", "{none}", "{}"), ("operator class", "{btree,int4_ops}", "{}"),
    ("operator class", "{btree}", "{}"), ("operator class", "{btree,none}", "{}"),
    ("operator class", "{none,int4_ops}", "{}"), ("operator family", "{btree,integer_ops}", "{}"),
    ("operator family", "{hash,none}", "{}"), ("operator of access method", "{btree,integer_ops,1}", "{int,int}"),
    ("operator of access method", "{btree,integer_ops,99}", "{int,int}"),
    ("operator of access method", "{btree,integer_ops}", "{int,int}"),
    ("operator of access method", "{btree,integer_ops,1}", "{int}"),
    ("function of access method", "{btree,integer_ops,1}", "{int,int}"), ("schema", "{rich}", "{}"),
    ("schema", "{none}", "{}"), ("schema", "{a,b}", "{}"), ("role", "{rich_reader}", "{}"), ("role", "{none}", "{}"),
    ("database", "{none}", "{}"), ("tablespace", "{pg_default}", "{}"), ("tablespace", "{none}", "{}"),
    ("extension", "{none}", "{}"), ("language", "{sql}", "{}"), ("language", "{none}", "{}"),
    ("access method", "{heap}", "{}"), ("access method", "{none}", "{}"), ("parameter ACL", "{work_mem}", "{}"),
    ("parameter ACL", "{none}", "{}"), ("text search configuration", "{english}", "{}"),
    ("text search configuration", "{none}", "{}"), ("text search parser", "{default}", "{}"),
    ("text search dictionary", "{simple}", "{}"), ("text search template", "{none}", "{}"),
    ("large object", "{4711}", "{}"), ("large object", "{4712}", "{}"), ("large object", "{NULL}", "{}"),
    ("default acl", "{postgres,rich}", "{r}"), ("default acl", "{postgres}", "{f}"),
    ("default acl", "{postgres}", "{r}"), ("default acl", "{postgres,rich}", "{f}"),
    ("default acl", "{postgres}", "{}"), ("default acl", "{postgres}", "{x}"), ("conversion", "{none}", "{}"),
    ("statistics object", "{none}", "{}"), ("server", "{none}", "{}"), ("foreign-data wrapper", "{none}", "{}"),
    ("event trigger", "{none}", "{}"), ("publication", "{none}", "{}"), ("subscription", "{none}", "{}"),
    ("trigger", "{parent,none}", "{}"), ("policy", "{parent,none}", "{}"), ("toast table", "{a}", "{}"),
    ("composite type", "{pair}", "{}"), ("index column", "{a,b}", "{}"), ("none", "{a}", "{}"), ("table", "{}", "{}"),
    ("table", "{NULL}", "{}"), ("rule", "{a}", "{}"), (None, "{a}", "{}"), ("table", None, "{}"),
    ("table", "{parent}", None),
)  # fmt: skip
_OID = re.compile(r"\d{5,}")


@pytest.fixture(scope="module")
def pair(shoal: ShoalServer, postgres_server: PostgresServer) -> Iterator[Pair]:
    with rich_pair(shoal, postgres_server, _MORE) as connections:
        for connection in connections:
            connection.execute("SET search_path = rich, public")
        yield connections


def _address(connection: psycopg.Connection, names: tuple[object, ...]) -> object:
    try:
        return connection.execute("SELECT * FROM pg_get_object_address(%s, %s, %s)", names).fetchone()
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_hint


@pytest.mark.parametrize("what", _ADDRESSES)
def test_every_object_is_found_by_its_names(pair: Pair, what: str) -> None:
    told: list[dict[str, str]] = []
    for connection in pair:
        asked = connection.execute(
            f"SELECT q.*, a.* FROM ({_ADDRESSES[what]}) q(k, o, n), pg_identify_object_as_address(k, o, n) a"
        ).fetchall()
        outcomes = {}
        for kind, oid, number, *names in asked:
            found = _address(connection, tuple(names))
            outcomes[str(names)] = "itself" if found == (kind, oid, number) else _OID.sub("OID", str(found))
        told.append(outcomes)
    common = told[0].keys() & told[1].keys()
    assert len(common) > 0.9 * len(told[1])  # rows of some catalogs are no types here
    for names in common:
        assert told[0][names] == told[1][names], names


@pytest.mark.parametrize("names", _WRITTEN, ids=str)
def test_names_as_they_may_be_written(pair: Pair, names: tuple[str | None, ...]) -> None:
    found = []
    for connection in pair:
        address = _address(connection, names)
        if isinstance(address, tuple) and len(address) == 3 and isinstance(address[0], int):
            query = "SELECT %s::oid, identity FROM pg_identify_object(%s, %s, %s)"
            address = connection.execute(query, (address[0], *address)).fetchone()
        found.append(address)
    assert found[0] == found[1]
