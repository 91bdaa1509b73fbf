"""What somebody may try to get at the machine's files, processes and network through SQL, with DuckDB's means and with
PostgreSQL's. Every attempt must end with an error, or give nothing of what it was after.

`{file}` is a file with a secret in it, `{folder}` an empty directory that must stay empty.
"""

from __future__ import annotations

import pathlib
import tempfile

import duckdb
import psycopg

SECRET = "canary-7f3a91c4"
SHARED = frozenset(("generate_series", "unnest", "search_path", "schema", "timezone"))  # PostgreSQL has them too

READS = (
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_json_auto('{file}')",
    "SELECT * FROM read_json_objects('{file}')",
    "SELECT * FROM read_ndjson('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_scan('{file}')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/../*')",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT * FROM sqlite_scan('{file}', 't')",
    "SELECT * FROM postgres_scan('host=127.0.0.1', 'public', 't')",
    "SELECT * FROM mysql_scan('', '', '')",
    "SELECT * FROM iceberg_scan('{file}')",
    "SELECT * FROM delta_scan('{file}')",
    "SELECT * FROM st_read('{file}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "SELECT * FROM query_table('{file}')",
    "SELECT pg_read_file('{file}')",
    "SELECT pg_read_binary_file('{file}')",
    "SELECT * FROM pg_ls_dir('{folder}/..')",
    "SELECT * FROM pg_stat_file('{file}')",
    "SELECT lo_import('{file}')",
    "COPY stolen FROM '{file}'",
    "COPY stolen FROM PROGRAM 'cat {file}'",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM pragma_database_list()",
    "SELECT which_secret('s3://x', 's3')",
    "SELECT * FROM local_variable",
    "SELECT * FROM sys.path",
    "SELECT json_execute_serialized_sql('SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''{file}'')'))",
    "SELECT current_setting('temp_directory')",
)
WRITES = (
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY stolen TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.parquet' (FORMAT parquet)",
    "COPY (SELECT 1) TO PROGRAM 'touch {folder}/out'",
    "EXPORT DATABASE '{folder}/all'",
    "IMPORT DATABASE '{folder}'",
    "SELECT lo_export(1, '{folder}/out')",
    "ATTACH '{folder}/other.db' AS other",
    "ATTACH DATABASE ':memory:' AS other",
    "DETACH other",
    "USE other",
    "CHECKPOINT other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/evil.duckdb_extension'",
    "FORCE INSTALL httpfs FROM 'http://127.0.0.1:9/'",
    "UPDATE EXTENSIONS",
    "CREATE EXTENSION httpfs",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "CREATE MACRO f(x) AS TABLE SELECT * FROM read_text(x)",
    "CREATE FUNCTION f() RETURNS text LANGUAGE c AS '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
    "CREATE FUNCTION f() RETURNS text LANGUAGE plpython3u AS 'import os'",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT content FROM read_text(''{file}'')'",
    "CREATE VIEW v AS SELECT * FROM read_text('{file}')",
    "CREATE TABLESPACE evil LOCATION '{folder}'",
    "PRAGMA enable_profiling",
    "PRAGMA temp_directory='{folder}'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET autoload_known_extensions = true",
    "SET custom_extension_repository = 'http://127.0.0.1:9/'",
    "SET temp_directory = '{folder}'",
    "SET home_directory = '{folder}'",
    "SET memory_limit = '100GB'",
    "SET secret_directory = '{folder}'",
    "SET log_query_path = '{folder}/log'",
    "SET GLOBAL enable_external_access = true",
    "CALL enable_logging()",
    "CALL pragma_version()",
    "CALL load_aws_credentials()",
)
# In places where a text reaches generated SQL, and could end the literal or the name that it stands in.
INJECTED = (
    "SELECT '''; ATTACH ''{folder}/x.db''; --' FROM stolen GROUP BY 1",
    'SELECT 1 AS "x""; SELECT * FROM read_text(\'{file}\'); --" FROM stolen GROUP BY 1',
    "SELECT max(t) FROM stolen WHERE t LIKE '%'' UNION SELECT content FROM read_text(''{file}'') --'",
    "SELECT string_agg(t, '''||(SELECT content FROM read_text(''{file}''))||''') FROM stolen",
    "SELECT E'\\'||(SELECT content FROM read_text(\\'{file}\\'))||\\'' FROM stolen GROUP BY 1",
    'SELECT count(*) FROM stolen AS "a""; COPY (SELECT 1) TO \'{folder}/x\'; --"',
)
# The same by other ways in: names that are quoted or qualified, prepared, in a cursor, a view, a routine, a block; by
# the search path, by set_config, in EXPLAIN, in a lateral join; as other files, and as what stands in for a file.
ROUNDABOUT = (
    "SELECT * FROM \"read_text\"('{file}')",
    "SELECT * FROM main.read_text('{file}')",
    "SELECT * FROM system.main.read_text('{file}')",
    "SELECT * FROM pg_catalog.read_text('{file}')",
    "SELECT * FROM READ_TEXT(ARRAY['{file}'])",
    "SELECT r.* FROM (VALUES ('{file}')) v (f), LATERAL read_text(f) r",
    "SELECT (SELECT content FROM read_text('{file}'))",
    "SELECT count(*) FROM stolen s, LATERAL (SELECT * FROM read_text('{file}')) r GROUP BY s.t",
    "WITH q AS MATERIALIZED (SELECT * FROM read_text('{file}')) SELECT * FROM q",
    "WITH RECURSIVE q AS (SELECT content FROM read_text('{file}') UNION ALL SELECT * FROM q) SELECT * FROM q",
    "SELECT * FROM ROWS FROM (read_text('{file}'), generate_series(1, 2)) x",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{file}')",
    "PREPARE stealing (text) AS SELECT * FROM read_text($1)",
    "PREPARE stealing AS COPY stolen FROM '{file}'",
    "EXECUTE stealing('{file}')",
    "DECLARE stealing CURSOR WITH HOLD FOR SELECT * FROM read_text('{file}')",
    "INSERT INTO stolen SELECT content FROM read_text('{file}') RETURNING t",
    "CREATE TABLE taken AS SELECT * FROM read_text('{file}')",
    "CREATE TEMP VIEW taken AS SELECT * FROM '{file}'",
    "CREATE MATERIALIZED VIEW taken AS SELECT * FROM read_csv('{file}')",
    "DO $$ BEGIN PERFORM pg_read_file('{file}'); END $$",
    "DO LANGUAGE plpython3u $$ open('{file}') $$",
    "CREATE FUNCTION taken() RETURNS text LANGUAGE sql RETURN pg_read_file('{file}'); SELECT taken()",
    "CREATE TABLE taken (t text DEFAULT pg_read_file('{file}')); INSERT INTO taken DEFAULT VALUES RETURNING t",
    "CREATE INDEX ON stolen (pg_read_file('{file}'))",
    "ALTER TABLE stolen ADD CHECK (t <> pg_read_file('{file}'))",
    "SELECT set_config('search_path', 'main,system', false), * FROM read_text('{file}')",
    "SELECT set_config('enable_external_access', 'true', false)",
    "SELECT set_config('dynamic_library_path', '{folder}', false)",
    "SELECT set_config('local_preload_libraries', '{folder}/evil.so', false)",
    "SET session_preload_libraries = '{folder}/evil.so'",
    "ALTER SYSTEM SET archive_command = 'touch {folder}/out'",
    "ALTER ROLE CURRENT_USER SET enable_external_access = 'true'",
    "ALTER DATABASE postgres SET temp_directory = '{folder}'",
    "LOAD 'plpython3u'",
    "SELECT pg_read_server_files FROM pg_read_server_files('{file}')",
    "SELECT pg_current_logfile()",
    "SELECT * FROM pg_ls_logdir()",
    "SELECT * FROM pg_ls_waldir()",
    "SELECT * FROM pg_ls_tmpdir()",
    "SELECT * FROM pg_ls_archive_statusdir()",
    "SELECT pg_file_write('{folder}/out', 'x', false)",
    "SELECT pg_logdir_ls()",
    "SELECT * FROM dblink('host=127.0.0.1', 'SELECT 1') AS d (a int)",
    "SELECT dblink_connect('host=127.0.0.1')",
    "CREATE EXTENSION file_fdw",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION plpython3u",
    "CREATE EXTENSION adminpack",
    "CREATE SERVER taken FOREIGN DATA WRAPPER file_fdw",
    "IMPORT FOREIGN SCHEMA public FROM SERVER taken INTO public",
    "CREATE SUBSCRIPTION taken CONNECTION 'host=127.0.0.1' PUBLICATION p",
    "CREATE LANGUAGE plpython3u",
    "CREATE TABLESPACE evil LOCATION '{folder}/../..'",
    "COPY stolen TO STDOUT (FORMAT 'parquet')",
    "COPY (SELECT * FROM read_text('{file}')) TO STDOUT",
    "COPY stolen FROM '{file}' WITH (FORMAT csv, DELIMITER E'\\x01')",
    "COPY stolen FROM '/dev/stdin'",
    "COPY stolen TO '/proc/self/fd/1'",
    "SELECT xpath('/', xmlparse(document '<!DOCTYPE a [<!ENTITY e SYSTEM \"file://{file}\">]><a>&e;</a>'))",
    "SELECT query_to_xml('SELECT * FROM read_text(''{file}'')', true, false, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(content) FROM read_text(''{file}'')')",
    "SELECT pg_stat_file('{file}', true)",
    "SELECT lo_import('{file}', 4711)",
    "SELECT * FROM 'https://127.0.0.1:9/x.parquet'",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x')",
    "SELECT * FROM 'file://{file}'",
    'SELECT * FROM "/proc/self/environ"',
    "SELECT format('%s', pg_read_file('{file}'))",
    "SELECT getvariable('x'), current_database() || getenv('PATH')",
    "FROM read_text('{file}')",
    "SUMMARIZE SELECT * FROM read_text('{file}')",
    "DESCRIBE '{file}'",
    "PIVOT (SELECT * FROM read_text('{file}')) ON filename",
    "SET VARIABLE x = (SELECT content FROM read_text('{file}'))",
    "CREATE OR REPLACE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "CREATE TYPE taken AS ENUM (SELECT content FROM read_text('{file}'))",
    "CREATE SEQUENCE taken START (SELECT size FROM read_text('{file}'))",
    "VACUUM stolen INTO '{folder}/out'",
    "ATTACH 'postgres:host=127.0.0.1' AS other (TYPE postgres)",
    "ATTACH 'https://127.0.0.1:9/x.db' AS other (READ_ONLY)",
    "COPY FROM DATABASE postgres TO other",
)


def duckdb_attempts() -> tuple[str, ...]:
    """Everything that DuckDB's catalog of this version has beside PostgreSQL's: its table functions and pragmas called
    with a file, its settings set."""
    with duckdb.connect() as database:
        kinds = "('table', 'pragma', 'table_macro')"
        functions = database.execute(
            f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN {kinds} ORDER BY 1"
        ).fetchall()
        settings = database.execute("SELECT name FROM duckdb_settings() ORDER BY 1").fetchall()
    made = [f"SELECT * FROM {name}('{{file}}')" for (name,) in functions if name not in SHARED]
    made += [f"PRAGMA {name}" for (name,) in functions if name not in SHARED]
    return (*made, *(f"SET {name} = '{{folder}}'" for (name,) in settings if name.lower() not in SHARED))


ATTEMPTS = READS + WRITES + INJECTED + ROUNDABOUT + duckdb_attempts()


def attempt(dsn: str, role: str, path: str) -> tuple[int, list[str]]:
    """How many attempts were made, and which of them got what they were after. `role` tries them on one path."""
    succeeded: list[str] = []
    with tempfile.TemporaryDirectory(prefix="shoal-escape-") as folder, tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{SECRET}\n")
        file.flush()
        for place, mode in ((file.name, 0o644), (folder, 0o777)):  # nothing but the server is to be in the way
            pathlib.Path(place).chmod(mode)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(b"DROP TABLE IF EXISTS stolen")
            connection.execute(b"CREATE TABLE stolen (t text)")
            connection.execute(b"INSERT INTO stolen VALUES ('nothing')")
            connection.execute(f"GRANT ALL ON stolen TO {role}".encode())
            connection.execute(f"SET ROLE {role}; SET shoal.path = '{path}'".encode())
            for sql in ATTEMPTS:
                text = sql.replace("{file}", file.name).replace("{folder}", folder)
                if found := _got(connection, text, pathlib.Path(folder)):
                    succeeded.append(f"{role}, {path}: {sql}: {found}")
    return len(ATTEMPTS), succeeded


def _got(connection: psycopg.Connection[tuple[object, ...]], sql: str, folder: pathlib.Path) -> str:
    """What an attempt has got, '' if nothing."""
    try:
        cursor = connection.execute(sql.encode())
        rows = cursor.fetchall() if cursor.description else []
        if any(SECRET in str(value) for row in rows for value in row):
            return "the secret"
        told = "" if sql in _harmless(sql) else f"no error, {len(rows)} rows"
    except psycopg.Error as error:
        told = "the secret, in an error" if SECRET in str(error) else ""
        if error.sqlstate is None or error.sqlstate == "XX000":
            told = f"not refused in good order: {error}"
    if written := [item.name for item in folder.iterdir()]:
        told = f"wrote {written}"
    return told


def _harmless(sql: str) -> tuple[str, ...]:
    """What succeeds and means nothing: texts that only look like attempts, and external entities of XML, which stay
    empty as in PostgreSQL."""
    return (sql,) if ("stolen" in sql and not sql.startswith("COPY")) or "!ENTITY" in sql else ()
