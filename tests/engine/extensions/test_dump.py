"""pg_dump of a database with extensions: it writes CREATE EXTENSION and none of their objects; both servers read it."""

from __future__ import annotations

import subprocess

import psycopg

from tests.oracle import PostgresServer, binaries
from tests.server import ShoalServer

SCHEMA = """
CREATE SCHEMA other;
CREATE EXTENSION citext; CREATE EXTENSION hstore WITH SCHEMA other; CREATE EXTENSION ltree; CREATE EXTENSION unaccent;
CREATE EXTENSION pg_trgm WITH SCHEMA other; CREATE EXTENSION btree_gist; CREATE EXTENSION btree_gin;
CREATE EXTENSION intarray; CREATE EXTENSION pgcrypto; CREATE EXTENSION fuzzystrmatch;
CREATE TABLE t (id int PRIMARY KEY, name citext UNIQUE, path ltree, extra other.hstore, tags int[], during int4range,
    code text DEFAULT encode(digest('x', 'md5'), 'hex'), EXCLUDE USING gist (id WITH =, during WITH &&));
CREATE INDEX t_names ON t USING gin (((name)::text) other.gin_trgm_ops);
CREATE INDEX t_code ON t USING gist (code other.gist_trgm_ops, id);
CREATE INDEX t_path ON t USING gist (path);
CREATE INDEX t_tags ON t USING gin (tags gin__int_ops, id);
CREATE VIEW v AS SELECT id, soundex(code) AS sound, other.similarity(code, 'x') AS near, path @> 'a.b'::ltree AS above
    FROM t WHERE code OPERATOR(other.%) 'word';
INSERT INTO t VALUES (1, 'One', 'a.b', 'k=>v', '{1,2}', '[1,5)');
"""


def dump(dsn: str) -> str:
    command = [str(binaries() / "pg_dump"), "--no-owner", "--restrict-key=x", dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "restrict-key" in done.stderr:  # older than the option
        done = subprocess.run([command[0], command[1], dsn], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("-- Dumped"))


def restore(dsn: str, text: str) -> None:
    command = [str(binaries() / "psql"), "-qX", "-v", "ON_ERROR_STOP=1", dsn]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_dump_has_the_extensions_and_both_servers_read_it(
    shoal: ShoalServer, postgres_server: PostgresServer
) -> None:
    names = {}
    for server, kinds in ((shoal, ("written", "read")), (postgres_server, ("written", "read"))):
        for kind in kinds:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE extensions_{kind}".encode())
            names[server, kind] = server.dsn.replace("dbname=postgres", f"dbname=extensions_{kind}")
    try:
        for server in (shoal, postgres_server):
            restore(names[server, "written"], SCHEMA)
        ours, theirs = dump(names[shoal, "written"]), dump(names[postgres_server, "written"])
        assert "CREATE FUNCTION" not in ours
        assert "CREATE OPERATOR" not in ours
        restore(names[postgres_server, "read"], ours)
        restore(names[shoal, "read"], theirs)
        assert dump(names[postgres_server, "read"]) == theirs
        assert dump(names[shoal, "read"]) == ours
    finally:
        for server in (shoal, postgres_server):
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for kind in ("written", "read"):
                    connection.execute(f"DROP DATABASE extensions_{kind} WITH (FORCE)".encode())
