"""/healthz: the process is alive (200, always). /readyz: it serves clients (200), or the reason why not (503).

    curl -s http://127.0.0.1:8080/readyz
    {"ready":true,"why":""}

A node of a cluster is not ready while pg_default has no leader, or while it cannot reach ZooKeeper: it would only
answer reads with `read_consistency` other than 'strong'. A restart would not help, so /healthz does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from engine.cluster_view import DEFAULT
from engine.node.node import Node
from shoal.admin.server import Admin, as_json


def routes(admin: Admin) -> Iterable[web.RouteDef]:
    async def alive(_: web.Request) -> web.StreamResponse:
        return as_json({"alive": True})

    async def ready(_: web.Request) -> web.StreamResponse:
        why = admin.why or find_problem(admin.parts.node)
        return as_json({"ready": not why, "why": why}, 503 if why else 200)

    return [web.get("/healthz", alive), web.get("/readyz", ready)]


def find_problem(node: Node) -> str:
    """The problem that keeps a node from serving clients; '' for none."""
    view = node.cluster_view
    if view is None:
        return ""
    if view.stale:
        return "ZooKeeper cannot be reached"
    if not any(space.leader for space in view.tablespaces() if space.name == DEFAULT):
        return f"tablespace {DEFAULT} has no leader"
    return ""
