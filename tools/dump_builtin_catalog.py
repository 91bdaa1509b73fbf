"""Writes catalog/data/*.tsv: the built-in types, functions, operators, casts, aggregates and relations as PostgreSQL
declares them.

They are facts of the interface (names, argument types, OIDs), read from a running server, and make name resolution
and pg_catalog agree with PostgreSQL. Run once per supported release, against a freshly initialised server:

    python tools/dump_builtin_catalog.py "host=127.0.0.1 port=5433 user=postgres" [name ...]
"""

from __future__ import annotations

import pathlib
import sys

import psycopg

DATA = pathlib.Path(__file__).resolve().parent.parent / "catalog" / "data"

QUERIES = {
    "pg_type": """SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typrelid,
        typelem, typarray, typbasetype, typtypmod, typcollation, typalign, typstorage,
        typinput::oid, typoutput::oid, typreceive::oid, typsend::oid, typmodin::oid, typmodout::oid
        FROM pg_type WHERE oid < 16384 AND typnamespace = 'pg_catalog'::regnamespace
        AND (typtype <> 'c') AND typname !~ '^_?pg_(?!lsn|snapshot|node_tree|ndistinct|dependencies|mcv_list|brin|ddl)'
        ORDER BY oid""",
    "pg_proc": """SELECT oid, proname, prosrc, prokind, proisstrict, proretset, provolatile, pronargs, pronargdefaults,
        provariadic, prorettype, proargtypes, array_to_string(proallargtypes, ' '),
        array_to_string(proargmodes, ''), array_to_string(proargnames, ','), procost, prorows,
        pg_get_expr(proargdefaults, 0), prolang, proleakproof,
        NOT has_function_privilege('public', oid, 'execute') AS proreserved
        FROM pg_proc WHERE oid < 16384 AND pronamespace = 'pg_catalog'::regnamespace ORDER BY oid""",
    "pg_operator": """SELECT oid, oprname, oprkind, oprcanmerge, oprcanhash, oprleft, oprright, oprresult, oprcom,
        oprnegate, oprcode::oid FROM pg_operator WHERE oid < 16384 ORDER BY oid""",
    "pg_cast": "SELECT oid, castsource, casttarget, castfunc, castcontext, castmethod FROM pg_cast ORDER BY oid",
    "pg_aggregate": """SELECT aggfnoid::oid, aggkind, aggnumdirectargs, aggtransfn::oid, aggfinalfn::oid, aggsortop,
        aggtranstype, agginitval FROM pg_aggregate WHERE aggfnoid::oid < 16384 ORDER BY 1""",
    "pg_description": """SELECT objoid, classoid::regclass, description FROM pg_description
        WHERE objoid < 16384 AND objsubid = 0
        AND classoid::regclass::text IN ('pg_proc', 'pg_type', 'pg_operator', 'pg_am', 'pg_collation', 'pg_ts_config',
            'pg_ts_dict', 'pg_ts_parser', 'pg_ts_template', 'pg_language')
        AND description NOT LIKE 'PL/pgSQL%' ORDER BY 1, 2""",
    "pg_relations": """SELECT c.oid, n.nspname, c.relname, c.relkind, (SELECT string_agg(concat_ws(':', attname,
        CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE a.atttypid END,
        CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END,
        attnotnull::int, attcollation), ' ' ORDER BY attnum)
        FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid WHERE attrelid = c.oid AND attnum > 0)
        FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE c.oid < 16384 AND relkind IN ('r', 'v') AND nspname <> 'pg_toast' ORDER BY c.oid""",
    "pg_views": """SELECT c.oid, pg_get_viewdef(c.oid) FROM pg_class c
        WHERE c.oid < 16384 AND relkind = 'v' ORDER BY c.oid""",
    "pg_am": "SELECT oid, amname, amhandler::oid, amtype FROM pg_am ORDER BY oid",
    "pg_amop": "SELECT * FROM pg_amop WHERE oid < 16384 ORDER BY oid",
    "pg_amproc": """SELECT oid, amprocfamily, amproclefttype, amprocrighttype, amprocnum, amproc::oid FROM pg_amproc
        WHERE oid < 16384 ORDER BY oid""",
    "pg_ts_template": """SELECT oid, tmplname, tmplnamespace, tmplinit::oid, tmpllexize::oid FROM pg_ts_template
        ORDER BY oid""",
    "pg_collation": """SELECT oid, collname, collnamespace, collowner, collprovider, collisdeterministic, collencoding,
        collcollate, collctype, colliculocale FROM pg_collation WHERE oid < 16384 ORDER BY oid""",
    "pg_language": "SELECT * FROM pg_language WHERE oid < 10000 ORDER BY oid",
    "pg_conversion": """SELECT oid, conname, connamespace, conowner, conforencoding, contoencoding, conproc::oid,
        condefault FROM pg_conversion WHERE oid < 16384 ORDER BY oid""",
    "pg_opclass": "SELECT * FROM pg_opclass WHERE oid < 16384 ORDER BY oid",
    "pg_opfamily": "SELECT * FROM pg_opfamily WHERE oid < 16384 ORDER BY oid",
    "pg_range": """SELECT rngtypid, rngsubtype, rngmultitypid, rngcollation, rngsubopc, rngcanonical::oid,
        rngsubdiff::oid FROM pg_range WHERE rngtypid < 16384 ORDER BY rngtypid""",
    "pg_timezone_abbrevs": "SELECT abbrev, extract(epoch FROM utc_offset)::int, is_dst FROM pg_timezone_abbrevs",
    "pg_settings": """SELECT name, unit, category, short_desc, extra_desc, vartype, min_val, max_val,
        array_to_string(enumvals, ','), boot_val, context FROM pg_settings WHERE name NOT LIKE '%.%'
        ORDER BY name COLLATE "C" """,
    "pg_keywords": "SELECT word, catcode, barelabel FROM pg_get_keywords()",
}


def main(dsn: str, *names: str) -> None:
    """Reads every listed catalog (all, or those named) through COPY and writes it in text format with a header line of
    column names."""
    with psycopg.connect(dsn) as connection:
        for name, query in QUERIES.items():
            if names and name not in names:
                continue
            copying = connection.cursor().copy(f"COPY ({query}) TO STDOUT (HEADER)")
            with (DATA / f"{name}.tsv").open("wb") as out, copying as copy:
                for block in copy:
                    out.write(bytes(block))


if __name__ == "__main__":
    main(*sys.argv[1:])
