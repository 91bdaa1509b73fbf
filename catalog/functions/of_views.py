"""Functions from which PostgreSQL's system views are made, and these views. The functions have no implementation:
engine/sql/analyze/from_clause.py replaces SELECT * FROM pg_lock_status() by SELECT * FROM pg_locks."""

from __future__ import annotations

from typing import Final

VIEWS: Final = {
    "pg_show_all_settings": "pg_settings",
    "pg_show_all_file_settings": "pg_file_settings",
    "pg_hba_file_rules": "pg_hba_file_rules",
    "pg_cursor": "pg_cursors",
    "pg_prepared_statement": "pg_prepared_statements",
    "pg_lock_status": "pg_locks",
    "pg_config": "pg_config",
    "pg_timezone_abbrevs": "pg_timezone_abbrevs",
}
