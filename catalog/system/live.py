"""The running node: settings, sessions, locks, cursors, time zones, the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from catalog.system.cluster import CLUSTER_VIEWS
from catalog.system.content import Columns, Item, Live, Surroundings, content, of_rows, system_table
from catalog.system.relations import SETTINGS, read_fields
from catalog.types.base import Interval


def _live(name: str, rows: Callable[[Live], list[dict[str, object]]]) -> None:
    @content(system_table(name), "live")
    def columns(_: list[Item], surroundings: Surroundings) -> Columns:
        return of_rows(rows(surroundings.live))


def _cluster(view: str, live: Live) -> list[dict[str, object]]:
    return live.cluster(view)


def _kerberos(live: Live) -> list[dict[str, object]]:
    """pg_stat_gssapi: GSSAPI is not supported, so no session uses it."""
    return [{"pid": row["pid"], "gss_authenticated": False, "encrypted": False} for row in live.encryption()]


_live("pg_settings", lambda live: live.settings())
_live("pg_file_settings", lambda live: live.file_settings())
_live("pg_hba_file_rules", lambda live: live.host_rules())
_live("pg_stat_activity", lambda live: live.activity())
_live("pg_stat_ssl", lambda live: live.encryption())
_live("pg_stat_gssapi", _kerberos)
_live("pg_locks", lambda live: live.locks())
_live("pg_largeobject_metadata", lambda live: live.large_objects())
_live("pg_cursors", lambda live: live.cursors())
_live("pg_prepared_statements", lambda live: live.prepared_statements())
_live("pg_prepared_xacts", lambda live: live.prepared_transactions())
_live("pg_timezone_names", lambda live: live.timezones())
_live("pg_stat_progress_copy", lambda live: live.copies())
_live("pg_stat_database", lambda live: live.databases())


for _view in CLUSTER_VIEWS:
    _live(_view.name, partial(_cluster, _view.name))


@content(SETTINGS, "live")
def _settings(_: list[Item], surroundings: Surroundings) -> Columns:
    values = surroundings.live.shown_settings()
    return {"name": [name.lower() for name, _ in values], "value": [value for _, value in values]}


@content("pg_timezone_abbrevs", "fixed")
def _abbreviations(_: list[Item], __: Surroundings) -> Columns:
    rows = list(read_fields("pg_timezone_abbrevs"))
    return {
        "abbrev": [row[0] for row in rows],
        "utc_offset": [Interval(0, 0, int(row[1] or 0) * 1_000_000) for row in rows],
        "is_dst": [row[2] == "t" for row in rows],
    }


@content("pg_stat_slru", "live")
def _small_caches(_: list[Item], surroundings: Surroundings) -> Columns:
    """Shoal has none of PostgreSQL's caches of pages. What goes through one of them is counted as its pages."""
    names = ("CommitTs", "MultiXactMember", "MultiXactOffset", "Notify", "Serial", "Subtrans", "Xact", "other")
    counters = ("blks_hit", "blks_read", "blks_written", "blks_exists", "flushes", "truncates")
    return {
        "name": list(names),
        "blks_zeroed": [surroundings.live.notification_pages() if name == "Notify" else 0 for name in names],
        **{counter: [0] * len(names) for counter in counters},
        "stats_reset": [surroundings.live.get_start()] * len(names),
    }


@content("pg_stat_bgwriter", "live")
def _background_writer(_: list[Item], surroundings: Surroundings) -> Columns:
    counters = (
        "checkpoints_timed", "checkpoints_req", "buffers_checkpoint", "buffers_clean", "maxwritten_clean",
        "buffers_backend", "buffers_backend_fsync", "buffers_alloc",
    )  # fmt: skip
    return {**dict.fromkeys(counters, 0), "stats_reset": [surroundings.live.get_start()]}
