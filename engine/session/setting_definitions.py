"""The settings that Shoal has: names, defaults, and checks of their values (PostgreSQL 16 manual, chapter 20).

Every setting that a driver, an ORM or psql uses is defined here. Settings of the planner and buffers, which have no
counterpart here, are kept and shown so that tools can set them (`has_effect` is False).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catalog.encodings import usable_encoding
from catalog.errors import SqlError
from catalog.system.parameter_values import boolean, invalid
from catalog.text_search.configurations import qualified_name
from catalog.types import lookup
from catalog.types.base import DEFAULT_FORMAT, Interval
from catalog.types.oids import INTERVAL
from catalog.types.timezones import offset_zone_name, zone_or_none
from engine.replica import parse_token
from engine.sql.dialects.names import DIALECTS, SHOAL

SERVER_VERSION = "15.0"
SERVER_VERSION_NUM = "150000"


@dataclass(frozen=True, slots=True)
class Definition:
    """`check` returns the canonical value or raises SqlError. context: internal (read-only), postmaster and sighup (the
    server's: SERVER_DEFINITIONS), superuser (only superusers SET it), user."""

    name: str
    default: str
    check: Callable[[str, str], str]
    context: str = "user"
    report: bool = False
    kind: str = "string"
    unit: str | None = None
    has_effect: bool = True
    description: str = ""


def _text(name: str, value: str) -> str:
    return value


def _boolean(name: str, value: str) -> str:
    return "on" if boolean(name, value.strip()) else "off"


def _choice(*words: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise invalid(name, value, f"Available values: {', '.join(words)}.")
        return word

    return check


def _synchronous_commit(name: str, value: str) -> str:
    word = value.strip().lower()
    known = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}
    return _choice("local", "remote_write", "remote_apply", "on", "off")(name, known.get(word, word))


def _integer(low: int, high: int) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        try:
            number = int(value.strip())
        except ValueError:
            raise invalid(name, value) from None
        if not low <= number <= high:
            message = f'{number} is outside the valid range for parameter "{name}" ({low} .. {high})'
            raise SqlError("22023", message)
        return str(number)

    return check


def _real(name: str, value: str) -> str:
    try:
        float(value)
    except ValueError:
        raise invalid(name, value) from None
    return value.strip()


def _fraction(name: str, value: str) -> str:
    shown = f"{float(_real(name, value)):.6g}"
    if not 0 <= float(value) <= 1:
        raise SqlError("22023", f'{shown} is outside the valid range for parameter "{name}" (0 .. 1)')
    return shown


_TIME_UNITS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _milliseconds(name: str, value: str) -> str:
    """A duration in any of PostgreSQL's units; shown in the largest unit that keeps it whole."""
    found = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*", value)
    if not found:
        raise invalid(name, value, 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".')
    total = round(float(found[1]) * _TIME_UNITS[found[2]])
    if not 0 <= total < 2**31:
        raise SqlError("22023", f'{total} ms is outside the valid range for parameter "{name}" (0 ms .. 2147483647 ms)')
    for unit in ("d", "h", "min", "s"):
        if total and total % _TIME_UNITS[unit] == 0:
            return f"{total // int(_TIME_UNITS[unit])}{unit}"
    return f"{total}ms" if total else "0"


def _log_duration(name: str, value: str) -> str:
    return "-1" if value.strip() == "-1" else _milliseconds(name, value)


def milliseconds(value: str) -> int:
    """The number of milliseconds in a canonical duration."""
    found = re.fullmatch(r"(-?\d+)(ms|s|min|h|d|)", value)
    assert found is not None
    return int(found[1]) * int(_TIME_UNITS[found[2]])


_SIZE_UNITS = {"B": 1 / 1024, "kB": 1, "MB": 1 << 10, "GB": 1 << 20, "TB": 1 << 30, "": 1}


def _kilobytes(least: int) -> Callable[[str, str], str]:
    """A size in any of PostgreSQL's units, at least this many kB or 0; shown in the largest unit that keeps it
    whole."""

    def check(name: str, value: str) -> str:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB|)\s*", value)
        if not found:
            raise invalid(name, value, 'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".')
        total = round(float(found[1]) * _SIZE_UNITS[found[2]])
        if total and not least <= total < 2**31:
            message = f'{total} kB is outside the valid range for parameter "{name}" ({least} kB .. 2147483647 kB)'
            raise SqlError("22023", message)
        for unit in ("TB", "GB", "MB"):
            if total and total % int(_SIZE_UNITS[unit]) == 0:
                return f"{total // int(_SIZE_UNITS[unit])}{unit}"
        return f"{total}kB" if total else "0"

    return check


def byte_count(value: str) -> int:
    """The number of bytes in a canonical size."""
    found = re.fullmatch(r"(\d+)(kB|MB|GB|TB|)", value)
    assert found is not None
    return (int(found[1]) << 10) * int(_SIZE_UNITS[found[2]])


def _read_token(name: str, value: str) -> str:
    parse_token(value)
    return value.strip()


LOG_LEVELS = (
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic",
)  # fmt: skip
_log_level = _choice(*LOG_LEVELS)

_DATE_STYLES = {"iso": "ISO", "sql": "SQL", "postgres": "Postgres", "german": "German"}
_DATE_ORDERS = {
    "mdy": "MDY", "us": "MDY", "noneuro": "MDY", "noneuropean": "MDY",
    "dmy": "DMY", "euro": "DMY", "european": "DMY", "ymd": "YMD",
}  # fmt: skip


def _date_style(name: str, value: str) -> str:
    style, order = "ISO", "MDY"
    for word in value.lower().replace(",", " ").split():
        if word in _DATE_STYLES:
            style = _DATE_STYLES[word]
            order = "DMY" if word == "german" else order
        elif word in _DATE_ORDERS:
            order = _DATE_ORDERS[word]
        elif word != "default":
            raise invalid(name, value)
    return f"{style}, {order}"


_ZONE_INTERVAL = re.compile(r"interval\s*'([^']*)'", re.IGNORECASE)


def _time_zone(name: str, value: str) -> str:
    """A zone's name, a POSIX string, hours east of Greenwich, or the value of SET TIME ZONE INTERVAL."""
    if value.lower() in ("default", "local"):
        return "UTC"
    if found := _ZONE_INTERVAL.fullmatch(value):
        interval = lookup(INTERVAL).text_decoder(DEFAULT_FORMAT, -1)(found[1])
        assert isinstance(interval, Interval)
        if interval.months or interval.days:
            unit = "months" if interval.months else "days"
            raise SqlError("22023", f"cannot specify {unit} in time zone interval")
        return offset_zone_name(interval.microseconds // 1_000_000)
    try:
        seconds = float(value) * 3600
    except ValueError:
        zone = zone_or_none(value)
        if zone is None:
            raise invalid(name, value) from None
        return zone.name
    if not abs(seconds) <= 7 * 24 * 3600:
        raise invalid(name, value)
    return offset_zone_name(int(seconds))


def _encoding(name: str, value: str) -> str:
    found = usable_encoding(value)
    if found is None:
        raise invalid(name, value)
    return found.name


def _text_search(name: str, value: str) -> str:
    """The name with its schema. One that is unknown stays, because a session gets its first settings before it has a
    catalog (`check` in engine/session/variables.py refuses it in SET)."""
    return qualified_name(value) or value


def _isolation(name: str, value: str) -> str:
    word = " ".join(value.lower().split())
    if word == "read uncommitted":
        return "read uncommitted"
    if word in ("read committed", "repeatable read", "serializable"):
        return word
    raise invalid(name, value, "Available values: serializable, repeatable read, read committed, read uncommitted.")


def _float_digits(name: str, value: str) -> str:
    return _integer(-15, 3)(name, value)


_PLANNER_SWITCHES = (
    "seqscan", "indexscan", "indexonlyscan", "bitmapscan", "hashjoin", "mergejoin", "nestloop", "hashagg", "sort",
    "material", "memoize", "tidscan", "gathermerge", "parallel_append", "parallel_hash", "partition_pruning",
    "incremental_sort", "async_append",
)  # fmt: skip

MAX_PREPARED_TRANSACTIONS = 100  # each holds its writes in memory, and its locks

_PLANNER_COSTS = (
    ("cpu_tuple_cost", "0.01"), ("cpu_index_tuple_cost", "0.005"), ("cpu_operator_cost", "0.0025"),
    ("jit_above_cost", "100000"), ("jit_inline_above_cost", "500000"), ("jit_optimize_above_cost", "500000"),
)  # fmt: skip

_DEFINITIONS = (
    Definition("server_version", f"{SERVER_VERSION} (Shoal 0.1.0)", _text, "internal", True),
    Definition("server_version_num", SERVER_VERSION_NUM, _text, "internal", kind="integer"),
    Definition("server_encoding", "UTF8", _text, "internal", True),
    Definition("client_encoding", "UTF8", _encoding, report=True),
    Definition("DateStyle", "ISO, MDY", _date_style, report=True),
    Definition("TimeZone", "UTC", _time_zone, report=True),
    Definition(
        "IntervalStyle", "postgres", _choice("postgres", "postgres_verbose", "sql_standard", "iso_8601"), report=True
    ),
    Definition("integer_datetimes", "on", _boolean, "internal", True, "bool"),
    Definition("standard_conforming_strings", "on", _boolean, report=True, kind="bool"),
    Definition("in_hot_standby", "off", _boolean, "internal", True, "bool"),
    Definition("default_transaction_read_only", "off", _boolean, report=True, kind="bool"),
    Definition("default_transaction_isolation", "read committed", _isolation, kind="enum"),
    Definition("default_transaction_deferrable", "off", _boolean, kind="bool"),
    Definition("transaction_isolation", "read committed", _isolation, kind="enum"),
    Definition("transaction_read_only", "off", _boolean, kind="bool"),
    Definition("transaction_deferrable", "off", _boolean, kind="bool"),
    Definition("is_superuser", "on", _boolean, "internal", True, "bool"),
    Definition("session_authorization", "postgres", _text, report=True),
    Definition("role", "none", _text),
    Definition("application_name", "", _text, report=True),
    Definition("search_path", '"$user", public', _text),
    Definition("default_tablespace", "", _text),
    Definition("temp_tablespaces", "", _text, has_effect=False),
    Definition("default_table_access_method", "heap", _choice("heap"), kind="enum"),
    Definition("statement_timeout", "0", _milliseconds, kind="integer", unit="ms"),
    Definition("deadlock_timeout", "1s", _milliseconds, "superuser", kind="integer", unit="ms", has_effect=False),
    Definition("lock_timeout", "0", _milliseconds, kind="integer", unit="ms"),
    Definition("idle_in_transaction_session_timeout", "0", _milliseconds, kind="integer", unit="ms"),
    Definition("idle_session_timeout", "0", _milliseconds, kind="integer", unit="ms"),
    Definition(
        "transaction_timeout",
        "0",
        _milliseconds,
        kind="integer",
        unit="ms",
        description="Maximum duration of a transaction, after which its connection ends. 0: no limit.",
    ),
    Definition(
        "query_memory_limit",
        "512MB",
        _kilobytes(64),
        kind="integer",
        unit="kB",
        description="Maximum memory of one statement in the server's process; 0: no limit.",
    ),
    Definition(
        "connection_memory_limit",
        "0",
        _kilobytes(1024),
        kind="integer",
        unit="kB",
        description="Maximum memory of a connection between statements; 0: half of the setting memory.",
    ),
    Definition("extra_float_digits", "1", _float_digits, kind="integer"),
    Definition("bytea_output", "hex", _choice("hex", "escape"), kind="enum"),
    Definition(
        "client_min_messages",
        "notice",
        _choice("debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error"),
        kind="enum",
    ),
    Definition("max_identifier_length", "63", _text, "internal", kind="integer"),
    Definition("max_index_keys", "32", _text, "internal", kind="integer"),
    Definition("max_prepared_transactions", str(MAX_PREPARED_TRANSACTIONS), _text, "internal", kind="integer"),
    Definition("block_size", "8192", _text, "internal", kind="integer"),
    Definition("lc_collate", "C", _text, "internal"),
    Definition("lc_ctype", "C.UTF-8", _text, "internal"),
    Definition("lc_messages", "C", _text, "superuser", has_effect=False),
    Definition("lc_monetary", "C", _text, has_effect=False),
    Definition("lc_numeric", "C", _text, has_effect=False),
    Definition("lc_time", "C", _text, has_effect=False),
    Definition("wal_level", "replica", _text, "internal"),
    Definition("ssl", "off", _boolean, "internal", kind="bool"),
    Definition("data_checksums", "on", _boolean, "internal", kind="bool"),
    Definition("server_version_full", "Shoal 0.1.0", _text, "internal"),
    Definition("synchronous_commit", "on", _synchronous_commit, kind="enum"),
    Definition(
        "as_of",
        "",
        _text,
        "internal",
        description="The LSN or time as of which the session reads, read-only; empty for now. SET and RESET change it.",
    ),
    Definition(
        "read_consistency",
        "strong",
        _choice("strong", "bounded", "session", "eventual"),
        kind="enum",
        description="The state that a read on a follower sees; on the leader every read is strong.",
    ),
    Definition(
        "max_staleness",
        "5s",
        _milliseconds,
        kind="integer",
        unit="ms",
        description="Maximum age of the state that a read sees with read_consistency = bounded.",
    ),
    Definition(
        "read_after",
        "",
        _read_token,
        description="A token of shoal_last_commit(): reads on a follower see at least that commit.",
    ),
    Definition(
        "sql_dialect",
        SHOAL,
        _choice(*DIALECTS),
        kind="enum",
        description="The SQL that statements are written in: PostgreSQL's, or that of another database.",
    ),
    Definition("track_counts", "on", _boolean, "superuser", kind="bool"),
    Definition("track_functions", "none", _choice("none", "pl", "all"), "superuser", kind="enum"),
    Definition("stats_fetch_consistency", "cache", _choice("none", "cache", "snapshot"), kind="enum"),
    Definition("row_security", "on", _boolean, kind="bool"),
    Definition("check_function_bodies", "on", _boolean, kind="bool"),
    Definition("session_replication_role", "origin", _choice("origin", "replica", "local"), "superuser", kind="enum"),
    Definition("xmlbinary", "base64", _choice("base64", "hex"), kind="enum"),
    Definition("xmloption", "content", _choice("content", "document"), kind="enum"),
    Definition("jit", "off", _boolean, has_effect=False, kind="bool"),
    Definition("work_mem", "4MB", _text, has_effect=False, kind="integer", unit="kB"),
    Definition("max_stack_depth", "2MB", _text, "superuser", has_effect=False, kind="integer", unit="kB"),
    Definition("hash_mem_multiplier", "2", _real, has_effect=False, kind="real"),
    Definition("maintenance_work_mem", "64MB", _text, has_effect=False, kind="integer", unit="kB"),
    Definition("effective_cache_size", "4GB", _text, has_effect=False, kind="integer", unit="8kB"),
    Definition("shared_buffers", "128MB", _text, "internal", has_effect=False, kind="integer", unit="8kB"),
    Definition("random_page_cost", "4", _real, has_effect=False, kind="real"),
    Definition("seq_page_cost", "1", _real, has_effect=False, kind="real"),
    Definition("default_statistics_target", "100", _integer(1, 10000), has_effect=False, kind="integer"),
    Definition("constraint_exclusion", "partition", _choice("on", "off", "partition"), has_effect=False, kind="enum"),
    Definition(
        "plan_cache_mode",
        "auto",
        _choice("auto", "force_generic_plan", "force_custom_plan"),
        has_effect=False,
        kind="enum",
    ),
    Definition("max_parallel_workers_per_gather", "2", _integer(0, 1024), has_effect=False, kind="integer"),
    Definition("parallel_setup_cost", "1000", _real, has_effect=False, kind="real"),
    Definition("parallel_tuple_cost", "0.1", _real, has_effect=False, kind="real"),
    Definition("min_parallel_table_scan_size", "8MB", _text, has_effect=False, kind="integer"),
    Definition("min_parallel_index_scan_size", "512kB", _text, has_effect=False, kind="integer"),
    Definition("parallel_leader_participation", "on", _boolean, has_effect=False, kind="bool"),
    Definition("password_encryption", "scram-sha-256", _choice("md5", "scram-sha-256"), has_effect=False, kind="enum"),
    Definition("force_parallel_mode", "off", _choice("off", "on", "regress"), has_effect=False, kind="enum"),
    *(Definition(name, cost, _real, has_effect=False, kind="real") for name, cost in _PLANNER_COSTS),
    Definition("geqo", "on", _boolean, has_effect=False, kind="bool"),
    Definition("geqo_threshold", "12", _integer(2, 2**31 - 1), has_effect=False, kind="integer"),
    Definition("from_collapse_limit", "8", _integer(1, 2**31 - 1), has_effect=False, kind="integer"),
    Definition("join_collapse_limit", "8", _integer(1, 2**31 - 1), has_effect=False, kind="integer"),
    Definition("cursor_tuple_fraction", "0.1", _real, has_effect=False, kind="real"),
    Definition(
        "log_statement", "none", _choice("none", "ddl", "mod", "all"), "superuser", has_effect=False, kind="enum"
    ),
    Definition(
        "log_min_duration_statement",
        "-1",
        _log_duration,
        "superuser",
        kind="integer",
        unit="ms",
        description="Statements that take this long or longer are logged; -1: none.",
    ),
    Definition("log_min_messages", "warning", _log_level, "superuser", kind="enum"),
    Definition("log_min_error_statement", "error", _log_level, "superuser", kind="enum"),
    Definition("log_connections", "off", _boolean, "superuser", kind="bool"),
    Definition("log_disconnections", "off", _boolean, "superuser", kind="bool"),
    Definition("vacuum_cost_delay", "0", _text, has_effect=False, kind="real"),
    Definition("default_toast_compression", "pglz", _choice("pglz", "lz4"), has_effect=False, kind="enum"),
    Definition("pg_trgm.similarity_threshold", "0.3", _fraction, kind="real"),
    Definition("pg_trgm.word_similarity_threshold", "0.6", _fraction, kind="real"),
    Definition("pg_trgm.strict_word_similarity_threshold", "0.5", _fraction, kind="real"),
    Definition("default_text_search_config", "pg_catalog.english", _text_search),
    Definition("array_nulls", "on", _choice("on"), kind="bool"),
    Definition(
        "backslash_quote", "safe_encoding", _choice("safe_encoding", "on", "off"), has_effect=False, kind="enum"
    ),
    Definition("escape_string_warning", "on", _boolean, has_effect=False, kind="bool"),
    Definition("quote_all_identifiers", "off", _boolean, has_effect=False, kind="bool"),
    Definition("synchronize_seqscans", "on", _boolean, has_effect=False, kind="bool"),
    Definition("transform_null_equals", "off", _choice("off"), kind="bool"),
    Definition(
        "shoal.path",
        "auto",
        _choice("auto", "columnar"),
        kind="enum",
        description="A diagnostic setting: columnar plans whatever the columnar path can run for it.",
    ),
    *(Definition(f"enable_{name}", "on", _boolean, has_effect=False, kind="bool") for name in _PLANNER_SWITCHES),
)
DEFINITIONS: Mapping[str, Definition] = {definition.name.lower(): definition for definition in _DEFINITIONS}


def _address(name: str, value: str) -> str:
    """HOST:PORT, with an optional https:// for the administration port; '' for none."""
    host, _, port = value.removeprefix("https://" if name == "admin" else "").rpartition(":")
    if (not host or not port.isdigit() or int(port) > 65535) and (value or name == "listen"):
        raise invalid(name, value, "Write HOST:PORT, such as 127.0.0.1:5432.")
    return value


def _positive(name: str, value: str) -> str:
    if not 0 <= float(_real(name, value)) < float("inf"):
        raise SqlError("22023", f'{value.strip()} is outside the valid range for parameter "{name}" (0 .. infinity)')
    return value.strip()


_COUNT = _integer(0, 2**63 - 1)
_CONNECTIONS = 262143
# What ALTER SYSTEM changes and SET does not: settings of the server, as its configuration file names them. Those of
# context sighup follow when the configuration is read again, the others when the server starts.
SERVER_DEFINITIONS: Mapping[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition("host_rules", "", _text, "sighup", description="The file of host rules."),
        Definition("tls_cert", "", _text, "sighup", description="The file with the certificate for TLS."),
        Definition("tls_key", "", _text, "sighup", description="The file with the certificate's key."),
        Definition("max_connections", "500", _integer(1, _CONNECTIONS), "sighup", kind="integer"),
        Definition("superuser_reserved_connections", "3", _integer(0, _CONNECTIONS), "sighup", kind="integer"),
        Definition("log_format", "text", _choice("text", "json"), "sighup", kind="enum"),
        Definition("memory", "0", _COUNT, "sighup", kind="integer", unit="B", description="For all connections."),
        Definition("listen", "127.0.0.1:5432", _address, "postmaster"),
        Definition("admin", "", _address, "postmaster", description="Address of the administration port."),
        Definition("columnar_memory", str(2 << 30), _COUNT, "postmaster", kind="integer", unit="B"),
        Definition("columnar_spill", "0", _COUNT, "postmaster", kind="integer", unit="B"),
        Definition("columnar_threads", "2", _integer(1, 1024), "postmaster", kind="integer"),
        Definition("store", "", _text, "postmaster", description="The cluster's changelog store."),
        Definition("read_from", "", _text, "postmaster", description="A regional copy of the changelog store."),
        Definition("session_timeout", "6.0", _positive, "postmaster", kind="real", unit="s"),
        Definition("commit_timeout", "10.0", _positive, "postmaster", kind="real", unit="s"),
        Definition("checkpoint_interval", "3600.0", _positive, "postmaster", kind="real", unit="s"),
        Definition("past_window", "5.0", _positive, "postmaster", kind="real", unit="s"),
        Definition("history_retention", "0.0", _positive, "postmaster", kind="real", unit="s"),
        Definition("history_bytes", str(4 << 30), _COUNT, "postmaster", kind="integer", unit="B"),
    )
}
# The file of ALTER SYSTEM cannot contain its own directory, the cluster and the node.
NOT_IN_FILE = frozenset((
    "data", "cluster", "node", "session_authorization", "role", "transaction_isolation", "transaction_read_only",
    "transaction_deferrable", "as_of", "read_after", "sql_dialect",
))  # fmt: skip
IDENTITIES = ("session_authorization", "role")  # set by Session.set_identity, which checks the privileges
# Settings that RESET ALL does not change (GUC_NO_RESET_ALL).
NOT_RESET = (*IDENTITIES, "is_superuser", "transaction_isolation", "transaction_read_only", "transaction_deferrable")
# Settings of a transaction.
OF_TRANSACTION = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
REPORTED = tuple(definition.name for definition in _DEFINITIONS if definition.report)
MEMORY_LIMITS = ("query_memory_limit", "connection_memory_limit")
