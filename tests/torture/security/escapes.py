"""What somebody may try to get at the machine's files, processes and network through SQL, with DuckDB's means and with
PostgreSQL's. Every attempt must end with an error, or give nothing of what it was after.

`{file}` is a file with a secret in it, `{folder}` an empty directory that must stay empty.
"""

from __future__ import annotations

import pathlib
import tempfile

import psycopg

SECRET = "canary-7f3a91c4"

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
ATTEMPTS = READS + WRITES + INJECTED


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
    """What succeeds and means nothing: texts that only look like attempts, and settings that PostgreSQL has too."""
    return (sql,) if "stolen" in sql and not sql.startswith("COPY") else ()
