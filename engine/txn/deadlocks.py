"""Which order of queues has no cycle of waits in it (src/backend/storage/lmgr/deadlock.c of PostgreSQL).

Who waits for a holder waits for him in any order: a hard edge. Who waits only since another one came first does not,
if that one goes behind him: a soft edge. A cycle with a soft edge is no deadlock if turning some of these round leaves
none; they are tried one after the other, each with what follows from it. Queues of rows stay as they are: PostgreSQL's
first waiter for a row holds the place, so there an edge is hard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.txn.locks import Ticket

Edge = tuple["Ticket", "Ticket"]
"""(one, other): in the cycle the one waits for the other, since it stands behind it; or the one is to stand before."""

MOST_TURNED = 16  # edges, of one deadlock: more of them than sessions ever are in one


def orders_without_cycle(ticket: Ticket) -> list[list[Ticket]] | None:
    """The queues that have to change for a wait that has just begun, each in its new order; None: it is a deadlock."""
    found = _Search(ticket).turn([])
    return None if found is None else list(found.values())


class _Search:
    def __init__(self, start: Ticket) -> None:
        self._start = start

    def turn(self, turned: list[Edge]) -> dict[tuple[int, object], list[Ticket]] | None:
        """The new orders where these edges are turned round, and as many more as it takes."""
        orders: dict[tuple[int, object], list[Ticket]] = {}
        for one, _ in turned:
            queue = _queue_of(one)
            if queue not in orders:
                order = _sort(one.space.queue(one), turned)
                if order is None:
                    return None
                orders[queue] = order
        soft: list[Edge] = []
        for ticket in (*(item for edge in turned for item in edge), self._start):
            cycle = _soft_edges(ticket, orders)
            if cycle is not None:
                if not cycle:
                    return None
                soft = cycle
        if not soft:
            return orders
        if len(turned) < MOST_TURNED:
            for one, other in soft:
                found = self.turn([*turned, (one, other)])
                if found is not None:
                    return found
        return None


def waits_behind(ticket: Ticket, earlier: Ticket) -> bool:
    """Whether a ticket waits for one that stands before it."""
    return earlier.owner is not ticket.owner and bool(ticket.space.conflicts[earlier.mode] & ticket.mode)


def _queue_of(ticket: Ticket) -> tuple[int, object]:
    return id(ticket.space), ticket.name


def _sort(queue: Sequence[Ticket], turned: Sequence[Edge]) -> list[Ticket] | None:
    """The queue in the order nearest to its own in which every edge's one stands before its other (TopoSort)."""
    left = list(queue)
    order: list[Ticket] = []
    while left:
        last = next((item for item in reversed(left) if not _before_another(item, left, turned)), None)
        if last is None:
            return None
        left.remove(last)
        order.append(last)
    order.reverse()
    return order


def _before_another(ticket: Ticket, left: Sequence[Ticket], turned: Sequence[Edge]) -> bool:
    return any(one is ticket and other in left for one, other in turned)


def _soft_edges(start: Ticket, orders: dict[tuple[int, object], list[Ticket]]) -> list[Edge] | None:
    """Those of a cycle through a wait, the last ones first; [] if all of it is hard, None if there is no cycle."""
    seen = {start}
    path: list[tuple[Iterator[tuple[Ticket, bool]], Edge | None]] = [(_edges(start, orders), None)]
    at = [start]
    while path:
        for blocker, soft in path[-1][0]:
            edge = (at[-1], blocker) if soft else None
            if blocker is start:
                return [item for item in (edge, *(item for _, item in reversed(path))) if item is not None]
            if blocker not in seen:
                seen.add(blocker)
                path.append((_edges(blocker, orders), edge))
                at.append(blocker)
                break
        else:
            path.pop()
            at.pop()
    return None


def _edges(ticket: Ticket, orders: dict[tuple[int, object], list[Ticket]]) -> Iterator[tuple[Ticket, bool]]:
    """The waits that a wait waits for, hard ones first, each with whether it is a soft one."""
    for holder in ticket.space.keeping_out(ticket):
        if holder.waiting is not None:
            yield holder.waiting, False
    for earlier in orders.get(_queue_of(ticket)) or ticket.space.queue(ticket):
        if earlier is ticket:
            return
        if waits_behind(ticket, earlier):
            yield earlier, ticket.space.may_reorder
