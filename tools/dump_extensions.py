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

# The first OID of each extension's block; a block ends where the next begins.
BLOCKS = {"citext": 14000, "hstore": 14200, "uuid-ossp": 14400, "pgcrypto": 14450, "pg_stat_statements": 14550,
          "end": 14570}  # fmt: skip

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
}  # fmt: skip
# fmt: off
_OIDS = frozenset((
    "oid", "typelem", "typarray", "typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout",
    "provariadic", "prorettype", "proargtypes", "proallargtypes", "oprleft", "oprright", "oprresult", "oprcom",
    "oprnegate", "oprcode", "castsource", "casttarget", "castfunc", "aggfnoid", "aggtransfn", "aggfinalfn",
    "aggsortop", "aggtranstype", "opcfamily", "opcintype", "opckeytype",
))
# fmt: on


def main(dsn: str) -> None:
    """Makes the extensions in the database and writes the files."""
    names = [name for name in BLOCKS if name != "end"]
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
        described = connection.execute(
            "SELECT name, default_version, comment FROM pg_available_extensions WHERE name = ANY(%s)", (names,)
        ).fetchall()
        relocatable = dict(connection.execute("SELECT extname, extrelocatable FROM pg_extension").fetchall())
        lines = ["first\tlast\tname\tversion\trelocatable\tcomment"]
        ends = list(BLOCKS.values())[1:]
        for (name, first), end in zip(list(BLOCKS.items())[:-1], ends, strict=True):
            version, comment = next((row[1], row[2]) for row in described if row[0] == name)
            lines.append("\t".join(map(_field, (first, end - 1, name, version, relocatable[name], comment))))
        (DATA / "extensions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _numbers(members: list[tuple[str, int, str, str]]) -> dict[int, int]:
    """OIDs of the database -> OIDs in the files, which numbers.tsv remembers."""
    path = DATA / "numbers.tsv"
    known: dict[tuple[str, str, str], int] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as lines:
            known = {(row[0], row[1], row[2]): int(row[3]) for row in csv.reader(lines, delimiter="\t")}
    free = {name: _unused(first, set(known.values())) for name, first in BLOCKS.items()}
    ends = dict(zip(BLOCKS, [*list(BLOCKS.values())[1:], 0], strict=True))
    found = {}
    for kind, oid, extension, identity in sorted(
        members, key=lambda row: (row[2], row[0] != "pg_type", row[0], row[3])
    ):
        key = (extension, kind, identity)
        if key not in known:
            known[key] = next(free[extension])
            assert known[key] < ends[extension], f"the block of {extension} is full"
        found[oid] = known[key]
    lines = ["\t".join((*key, str(number))) for key, number in sorted(known.items(), key=lambda item: item[1])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found


def _unused(first: int, taken: set[int]) -> Iterator[int]:
    number = first
    while True:
        if number not in taken:
            yield number
        number += 1


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
