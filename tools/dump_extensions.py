"""Writes catalog/data/extensions/*.tsv: the types, functions, operators, casts and classes of the extensions that Shoal
has, as PostgreSQL's own CREATE EXTENSION makes them.

Their files are those of tools/dump_builtin_catalog.py, all extensions in one. PostgreSQL gives the objects of an
extension new OIDs in every database; here they are the same everywhere: each extension has a block of OIDs, and an
object keeps its number once it has been given out (an object is known by what pg_identify_object says of it). Run
against a database without objects of its own:

    python tools/dump_extensions.py "host=127.0.0.1 port=5433 user=postgres dbname=scratch"
"""

from __future__ import annotations

import csv
import pathlib
import sys
from collections.abc import Iterator

import psycopg

DATA = pathlib.Path(__file__).resolve().parent.parent / "catalog" / "data" / "extensions"

# The OIDs of each extension's objects.
BLOCKS = {
    "citext": range(14000, 14200), "hstore": range(14200, 14400), "uuid-ossp": range(14400, 14450),
    "pgcrypto": range(14450, 14550), "pg_stat_statements": range(14550, 14570), "fuzzystrmatch": range(14570, 14600),
    "unaccent": range(14600, 14620), "pg_trgm": range(14620, 14750), "intarray": range(14750, 14870),
    "btree_gin": range(15500, 15700), "btree_gist": range(15700, 16000), "ltree": range(16000, 16200),
    "postgres_fdw": range(16200, 16220),
}  # fmt: skip
NEEDED = "plpgsql"  # described here; its objects are built in, with these OIDs:
NEEDED_OIDS = range(13560, 13564)

MEMBERS = """SELECT d.classid::regclass::text, d.objid, e.extname, i.identity
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
    CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = ANY(%s)
    UNION ALL SELECT 'pg_type', t.typarray, e.extname, t.typname || '[]'
    FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_type t ON t.oid = d.objid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.classid = 'pg_type'::regclass AND t.typarray <> 0
    AND e.extname = ANY(%s)"""

# Columns with OIDs (or lists of them), by the names that the headers have.
QUERIES = {
    "pg_type": """SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typrelid,
        typelem, typarray, typbasetype, typtypmod, typcollation, typalign, typstorage, typinput::oid, typoutput::oid,
        typreceive::oid, typsend::oid, typmodin::oid, typmodout::oid FROM pg_type WHERE oid = ANY(%s)""",
    # A body in SQL is not taken over: such a function is one of ours under the name that stands in its place.
    "pg_proc": """SELECT oid, proname, CASE WHEN prolang = 14 THEN (SELECT extname FROM pg_extension JOIN pg_depend d
        ON d.refobjid = pg_extension.oid WHERE d.objid = pg_proc.oid AND d.deptype = 'e') || '_' || proname
        ELSE prosrc END AS prosrc, prokind, proisstrict, proretset, provolatile, pronargs, pronargdefaults,
        provariadic, prorettype, proargtypes, array_to_string(proallargtypes, ' ') AS proallargtypes,
        array_to_string(proargmodes, '') AS proargmodes, array_to_string(proargnames, ',') AS proargnames, procost,
        prorows, pg_get_expr(proargdefaults, 0) AS proargdefaults,
        CASE WHEN prolang = 14 THEN 13 ELSE prolang END AS prolang, proleakproof,
        NOT has_function_privilege('public', oid, 'execute') AS proreserved FROM pg_proc WHERE oid = ANY(%s)""",
    "pg_operator": """SELECT oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft, oprright, oprresult, oprcom,
        oprnegate, oprcode::oid FROM pg_operator WHERE oid = ANY(%s)""",
    "pg_cast": """SELECT oid, castsource, casttarget, castfunc, castcontext, castmethod FROM pg_cast
        WHERE oid = ANY(%s)""",
    "pg_aggregate": """SELECT aggfnoid::oid, aggkind, aggnumdirectargs, aggtransfn::oid, aggfinalfn::oid, aggsortop,
        aggtranstype, agginitval FROM pg_aggregate WHERE aggfnoid::oid = ANY(%s)""",
    "pg_opclass": """SELECT oid, opcmethod, opcname, opcfamily, opcintype, opcdefault, opckeytype FROM pg_opclass
        WHERE oid = ANY(%s)""",
    "pg_opfamily": "SELECT oid, opfmethod, opfname FROM pg_opfamily WHERE oid = ANY(%s)",
    "pg_ts_template": "SELECT oid, tmplname, tmplinit::oid, tmpllexize::oid FROM pg_ts_template WHERE oid = ANY(%s)",
    "pg_ts_dict": "SELECT oid, dictname, dicttemplate, dictinitoption FROM pg_ts_dict WHERE oid = ANY(%s)",
}  # fmt: skip
# fmt: off
_OIDS = frozenset((
    "oid", "typelem", "typarray", "typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout",
    "provariadic", "prorettype", "proargtypes", "proallargtypes", "oprleft", "oprright", "oprresult", "oprcom",
    "oprnegate", "oprcode", "castsource", "casttarget", "castfunc", "aggfnoid", "aggtransfn", "aggfinalfn",
    "aggsortop", "aggtranstype", "opcfamily", "opcintype", "opckeytype", "tmplinit", "tmpllexize", "dicttemplate",
))
# fmt: on


def main(dsn: str) -> None:
    """Makes the extensions in the database and writes the files."""
    names = list(BLOCKS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in names:
            connection.execute(f'CREATE EXTENSION IF NOT EXISTS "{name}"')
        members = connection.execute(MEMBERS, (names, names)).fetchall()
        numbers = _numbers(members)
        given = [number for _, number, _, _ in members]
        for file, query in QUERIES.items():
            cursor = connection.execute(query, (given,))
            assert cursor.description is not None
            header = [column.name for column in cursor.description]
            rows = [_renumbered(header, row, numbers) for row in cursor]
            rows.sort(key=lambda row: int(row[0] or 0))
            lines = ["\t".join(header), *("\t".join(map(_field, row)) for row in rows)]
            (DATA / f"{file}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        _describe(connection)


def _describe(connection: psycopg.Connection) -> None:
    """Writes extensions.tsv."""
    described = connection.execute(
        """SELECT v.name, v.version, v.relocatable, v.trusted, v.comment FROM pg_available_extension_versions v
        JOIN pg_available_extensions a ON a.name = v.name AND a.default_version = v.version"""
    ).fetchall()
    rows = {row[0]: row for row in described}
    blocks = {**BLOCKS, NEEDED: NEEDED_OIDS}
    lines = ["first\tlast\tname\tversion\trelocatable\ttrusted\tcomment"]
    for name, block in blocks.items():
        lines.append("\t".join(map(_field, (block[0], block[-1], *rows[name]))))
    (DATA / "extensions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _numbers(members: list[tuple[str, int, str, str]]) -> dict[int, int]:
    """OIDs of the database -> OIDs in the files, which numbers.tsv remembers."""
    path = DATA / "numbers.tsv"
    known: dict[tuple[str, str, str], int] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as lines:
            known = {(row[0], row[1], row[2]): int(row[3]) for row in csv.reader(lines, delimiter="\t")}
    free = {name: _unused(block, set(known.values())) for name, block in BLOCKS.items()}
    found = {}
    for kind, oid, extension, identity in sorted(
        members, key=lambda row: (row[2], row[0] != "pg_type", row[0], row[3])
    ):
        key = (extension, kind, identity)
        if key not in known:
            known[key] = next(free[extension])  # StopIteration: the block is full
        found[oid] = known[key]
    lines = ["\t".join((*key, str(number))) for key, number in sorted(known.items(), key=lambda item: item[1])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


def _unused(block: range, taken: set[int]) -> Iterator[int]:
    return (number for number in block if number not in taken)


def _renumbered(header: list[str], row: tuple[object, ...], numbers: dict[int, int]) -> list[str | None]:
    found: list[str | None] = []
    for name, value in zip(header, row, strict=True):
        if value is None:
            found.append(None)
        elif isinstance(value, bool):
            found.append("t" if value else "f")
        elif name in _OIDS:
            found.append(" ".join(str(numbers.get(int(item), int(item))) for item in str(value).split()))
        else:
            found.append(str(value))
    return found


def _field(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    text = str(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


if __name__ == "__main__":
    main(*sys.argv[1:])
