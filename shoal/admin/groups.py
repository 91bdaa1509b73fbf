"""The groups of routes of the administration port; add the function of a new group here."""

from __future__ import annotations

from shoal.admin import health, metrics
from shoal.admin.server import RouteGroup
from shoal.console import routes as console

GROUPS: tuple[RouteGroup, ...] = (health.routes, metrics.routes, console.routes)
