"""Searches an order of lock queues without a cycle of waits (src/backend/storage/lmgr/deadlock.c of PostgreSQL).

A wait for a holder does not depend on the order of the queue: a hard edge. A wait only for an earlier waiter ends if
the queue is reordered: a soft edge. A cycle with a soft edge is not a deadlock if the reversal of some soft edges
leaves no cycle; the search tries the soft edges one by one, each with its consequences. Queues of rows keep their
order, so their edges are hard: in PostgreSQL the first waiter for a row holds a lock for its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.txn.locks import Ticket

Edge = tuple["Ticket", "Ticket"]
"""(one, other): in a cycle, `one` waits for `other` because it is behind it in a queue; in an order, `one` must be
before `other`."""

MOST_TURNED = 16  # edges in one deadlock; no cycle of sessions is longer


def orders_without_cycle(ticket: Ticket) -> list[list[Ticket]] | None:
    """The queues that must change for a new wait, each in its new order; None: it is a deadlock."""
    found = _Search(ticket).turn([])
    return None if found is None else list(found.values())


class _Search:
    def __init__(self, start: Ticket) -> None:
        self._start = start

    def turn(self, turned: list[Edge]) -> dict[tuple[int, object], list[Ticket]] | None:
        """The new orders after the reversal of these edges, and of as many more as needed."""
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
    """Whether a ticket waits for an earlier one."""
    return earlier.owner is not ticket.owner and bool(ticket.space.conflicts[earlier.mode] & ticket.mode)


def _queue_of(ticket: Ticket) -> tuple[int, object]:
    return id(ticket.space), ticket.name


def _sort(queue: Sequence[Ticket], turned: Sequence[Edge]) -> list[Ticket] | None:
    """The order nearest to the queue's own in which the first of every edge precedes its second (TopoSort)."""
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
    """The soft edges of a cycle through a wait, the last ones first; [] if all edges are hard, None if there is no
    cycle."""
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
    """The edges of a wait, hard ones first; each with a flag for soft ones."""
    for holder in ticket.space.keeping_out(ticket):
        if holder.waiting is not None:
            yield holder.waiting, False
    for earlier in orders.get(_queue_of(ticket)) or ticket.space.queue(ticket):
        if earlier is ticket:
            return
        if waits_behind(ticket, earlier):
            yield earlier, ticket.space.may_reorder
