"""Types whose DuckDB form is text that may differ from the output, which depends on settings."""

from __future__ import annotations

from catalog.types.geometry import GEOMETRY_OIDS
from catalog.types.multirange import RANGE_OIDS

CARRIED_AS_TEXT = RANGE_OIDS | GEOMETRY_OIDS
