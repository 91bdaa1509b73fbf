"""Finds the tablespaces that the statements of a connection concern, and whether this node may run them. The results
are kept for each session, so that nothing is computed twice while the schema stays the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.catalog import Catalog
from catalog.schema import Sequence as SequenceObject
from catalog.schema import Table, Tablespace, View
from engine.cluster_view import DEFAULT
from engine.node.node import Node
from engine.replica import HOME, Replica
from engine.session.session import Session
from engine.statements.needs import Needs
from engine.statements.routing import INVALID, LONG_READ, Route, Routes
from engine.statements.statement_tablespaces import AT_HOME, Reached, find_reached
from engine.txn.interface import SERIALIZABLE
from wire import core


@dataclass(slots=True)
class CycleNeeds:
    """The needs of the messages of a cycle that have arrived."""

    events: list[core.Event]
    size: int  # bytes
    whole: bool = True
    needs: Needs = Needs.NOTHING
    binds: Needs = Needs.NOTHING  # of the bound or executed statements
    speaks: bool = False  # it contains a statement
    rolls_back: bool = False
    commits: bool = False
    ends_first: bool = False
    opens_writable: bool = False
    discards: bool = False
    unlocks: bool = False
    own_portals: bool = False  # it uses portals of this node

    def add(self, route: Route, needs: Needs, bound: bool) -> None:
        if not self.speaks:
            self.rolls_back, self.ends_first = route.rolls_back, route.ends_first
        self.rolls_back &= route.rolls_back
        self.speaks = True
        self.needs = max(self.needs, needs)
        if bound:
            self.binds = max(self.binds, needs)
        self.commits |= route.commits
        self.opens_writable |= route.opens_writable
        self.discards |= route.discards
        self.unlocks |= route.unlocks


class LeaderSelection:
    """The selection for one connection. `routes` and `replica` are those of the node."""

    def __init__(self, routes: Routes, replica: Replica) -> None:
        self._routes = routes
        self._replica = replica
        self._here: tuple[Catalog | None, int, set[Route]] = (None, 0, set())  # by catalog and holdings
        self._known: tuple[Catalog | None, object, object, object] = (None, None, None, None)
        self._route_tablespaces: dict[tuple[Route, Needs], Reached | None] = {}  # while the state above does not change

    def cycle_needs(self, session: Session, events: list[core.Event], size: int) -> CycleNeeds:
        """The needs of the next cycle. `events`, `size`: as the core's `peek` gives them."""
        last = events[-1] if events else None
        cycle = CycleNeeds(events, size, isinstance(last, core.Query | core.Sync | core.FunctionCall | core.Terminate))
        parsed: dict[bytes, Route] = {}
        bound: set[bytes] = set()
        for event in events:
            if isinstance(event, core.Query):
                route = self._routes.of(event.sql, dialect=session.key.dialect)
                cycle.add(route, self.needs(session, route), bound=True)
            elif isinstance(event, core.Parse):
                route = parsed[event.name] = self._routes.of(event.sql, dialect=session.key.dialect)
                cycle.add(route, self.needs(session, route), bound=False)
            elif isinstance(event, core.Bind):
                bound.add(event.portal)
                route = parsed.get(event.statement) or self.prepared_route(session, event.statement)
                cycle.add(route, self.needs(session, route), bound=True)
            elif isinstance(event, core.Describe) and event.kind == "S":
                route = parsed.get(event.name) or self.prepared_route(session, event.name)
                cycle.add(route, self.needs(session, route), bound=False)
            elif isinstance(event, core.Execute | core.Describe):
                name = event.portal if isinstance(event, core.Execute) else event.name
                cycle.own_portals |= name in session.portals and name not in bound
                cycle.speaks = True
            elif isinstance(event, core.FunctionCall):
                cycle.speaks = True
                cycle.needs = cycle.binds = Needs.LEADER
        return cycle

    def prepared_route(self, session: Session, name: bytes) -> Route:
        """The route of a prepared statement; INVALID if there is none."""
        prepared = session.prepared.get(name)
        return INVALID if prepared is None else self._routes.of_prepared(prepared)

    def needs(self, session: Session, route: Route) -> Needs:
        """The needs of a route in this session: with statements that EXECUTE runs, sequences, which only the leader can
        read, and tables in tablespaces that this node lacks, all of which the leader has."""
        needs = route.needs
        for name in route.executes:
            needs = max(needs, self.needs(session, self.prepared_route(session, name.encode())))
        if needs is Needs.READ and route.relations and not self._is_here(session, route):
            return Needs.LEADER
        if route is LONG_READ and session.node.held.lacking:
            return Needs.LEADER  # the relations that it reads are not known
        return needs

    def _is_here(self, session: Session, route: Route) -> bool:
        """Whether this node has all relations that a query reads."""
        catalog, holdings = session.committed_catalog, session.node.held.holdings
        if self._here[0] is not catalog or self._here[1] != holdings:
            self._here = (catalog, holdings, set())
        here = self._here[2]
        if route in here:
            return True
        find = session.environment.find_relation
        if not all(_is_readable(session.node, catalog, find(*name)) for name in route.relations):
            return False
        here.add(route)
        return True

    def tablespaces_of_events(self, session: Session, events: Sequence[core.Event]) -> Reached | None:
        """The tablespaces of a cycle, as far as it has arrived; None: all of them."""
        parsed: dict[bytes, Route] = {}
        found: Reached = frozenset()
        for event in events:
            if isinstance(event, core.Query | core.Parse):
                route = self._routes.closer(event.sql, session.key.conforming, session.key.dialect)
                if isinstance(event, core.Parse):
                    parsed[event.name] = route
            elif isinstance(event, core.Bind):
                route = parsed.get(event.statement) or self.prepared_route(session, event.statement)
            elif isinstance(event, core.Describe) and event.kind == "S":
                route = parsed.get(event.name) or self.prepared_route(session, event.name)
            elif isinstance(event, core.FunctionCall):
                return None
            else:
                continue
            part = self.tablespaces_of_route(session, route)
            if part is None:
                return None
            found |= part
        return found or AT_HOME

    def tablespaces_of_route(self, session: Session, route: Route) -> Reached | None:
        """The tablespaces of a route, with those of statements that EXECUTE runs."""
        known, place = self._known, session.variables.get("default_tablespace")
        if (
            known[0] is not session.catalog
            or known[1] is not session.key
            or known[2] != session.temporary_schema
            or known[3] != place
        ):
            self._known = (session.catalog, session.key, session.temporary_schema, place)
            self._route_tablespaces = {}
        key = (route, self.needs(session, route))
        if key not in self._route_tablespaces:
            self._route_tablespaces[key] = find_reached(*key, session.environment, place)
        found = self._route_tablespaces[key]
        for name in route.executes:
            other = self.tablespaces_of_route(session, self.prepared_route(session, name.encode()))
            found = None if found is None or other is None else found | other
        return found

    # ---- leaders ----------------------------------------------------------------------------------------------------

    def not_led_here(self, needed: Reached | None) -> Reached:
        """The needed tablespaces (None: all) that this node does not lead."""
        replica = self._replica
        asked = replica.tablespaces if needed is None else needed
        return frozenset(tablespace for tablespace in asked if not replica.leads_in((tablespace,)))

    def led_apart_from_home(self, session: Session, needed: Reached | None) -> Reached | None:
        """The tablespaces of a cycle that can run apart from pg_default; None if it runs on the leader of
        pg_default."""
        if needed is None or HOME in needed:
            return None
        transaction = session.transaction
        isolation = transaction.isolation if transaction is not None else session.default_isolation
        if isolation == SERIALIZABLE or session.variables.get("synchronous_commit") in ("off", "remote_apply"):
            return None  # the one is watched, the other cached, in one place
        return needed if len(needed) == 1 or self._replica.led_together(needed) else None


def tablespace_name(session: Session, tablespace: bytes) -> str:
    """A tablespace's name in SQL."""
    catalog, identity = session.node.shared_catalog, tablespace.hex()
    items = map(catalog.get, catalog.tablespaces.values())
    names = (item.name for item in items if isinstance(item, Tablespace) and tablespace and item.identity == identity)
    return next(names, DEFAULT)


def _is_readable(node: Node, catalog: Catalog, relation: object) -> bool:
    """Whether a follower can read a relation: it is not a sequence, and its tablespace is on the node; the same for all
    relations of a view."""
    if isinstance(relation, Table):
        return not node.held.lacks(relation.tablespace)
    if isinstance(relation, View):
        return all(_is_readable(node, catalog, catalog.get(oid)) for oid in relation.depends_on)
    return not isinstance(relation, SequenceObject)
