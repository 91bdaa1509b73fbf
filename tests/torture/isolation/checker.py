"""Which anomalies a history of list-append transactions shows: the method of Elle (Kingsbury and Alvaro, VLDB 2020).

Every key holds a list, every append adds a value that nobody else appends, every read gives the whole list. So a read
tells which version it has seen and all versions before it, and who wrote each: from that alone follow the dependencies

    ww  A's append is the next after B's in a list        wr  A reads a version that B wrote
    rw  A reads a version whose next B wrote              rt  A had ended before B began

Found are (Adya's names; * with the wall clock as well, `-realtime`):

    G1a       a read of what was aborted                   G0            a cycle of ww                            *
    G1b       a read between two appends of another        G1c           a cycle of ww and wr                     *
    internal  a transaction that does not see its own      G-single      a cycle with one rw (lost update,        *
    lost      a committed append that no list has                        read skew)
    split     two reads that are not one list's            G-nonadjacent several rw, no two of them in a row      *
    twice     a value that is in a list twice              G2-item       a cycle with rw in a row (write skew)    *
    stale     a read without what was acknowledged before its transaction began

`FORBIDDEN` says which of these a level must not show. READ COMMITTED may not repeat a read, so `internal` there is only
about a transaction's own appends. A history without a last read of all keys cannot show what is lost.
"""

from __future__ import annotations

import enum
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import networkx

Value = int
Key = int
State = tuple[int, bool]


class Level(enum.Enum):
    READ_COMMITTED = "READ COMMITTED"
    REPEATABLE_READ = "REPEATABLE READ"
    SERIALIZABLE = "SERIALIZABLE"


class Outcome(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Append:
    key: Key
    value: Value


@dataclass(frozen=True, slots=True)
class Read:
    key: Key
    values: tuple[Value, ...]


@dataclass(slots=True)
class Transaction:
    """`begun`, `ended`: seconds of one clock, before its first statement and after the answer to its last."""

    number: int
    begun: float
    ended: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    operations: list[Append | Read] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Anomaly:
    name: str
    what: str


_ALWAYS = {"G0", "G1a", "G1b", "G1c", "internal", "lost", "split", "twice", "stale"}
_SNAPSHOT = _ALWAYS | {"G-single", "G-nonadjacent"}
_REAL = {"G0-realtime", "G1c-realtime"}
FORBIDDEN: Mapping[Level, set[str]] = {
    Level.READ_COMMITTED: _ALWAYS | _REAL,
    Level.REPEATABLE_READ: _SNAPSHOT | _REAL | {"G-single-realtime", "G-nonadjacent-realtime"},
    Level.SERIALIZABLE: _SNAPSHOT
    | _REAL
    | {"G2-item", "G-single-realtime", "G-nonadjacent-realtime", "G2-item-realtime"},
}


def check(history: Sequence[Transaction], level: Level) -> list[Anomaly]:
    """Everything that is found, also what the level allows: `FORBIDDEN` tells."""
    return _Check(history, level).run()


def forbidden(found: Iterable[Anomaly], level: Level) -> list[Anomaly]:
    return [anomaly for anomaly in found if anomaly.name in FORBIDDEN[level]]


class _Check:
    def __init__(self, history: Sequence[Transaction], level: Level) -> None:
        self.level = level
        self.found: list[Anomaly] = []
        self.writers = {
            operation.value: transaction
            for transaction in history
            for operation in transaction.operations
            if isinstance(operation, Append)
        }
        seen = {
            value
            for transaction in history
            if transaction.outcome is Outcome.COMMITTED
            for operation in transaction.operations
            if isinstance(operation, Read)
            for value in operation.values
        }
        self.history = [t for t in history if self._counts(t, seen)]
        self.aborted = {value for value, transaction in self.writers.items() if transaction.outcome is Outcome.ABORTED}
        self.reads = [
            (transaction, operation)
            for transaction in self.history
            for operation in transaction.operations
            if isinstance(operation, Read)
        ]
        self.lists: dict[Key, tuple[Value, ...]] = {}

    @staticmethod
    def _counts(transaction: Transaction, seen: set[Value]) -> bool:
        """Committed, or of unknown outcome and seen by somebody who has committed."""
        if transaction.outcome is not Outcome.UNKNOWN:
            return transaction.outcome is Outcome.COMMITTED
        return any(isinstance(op, Append) and op.value in seen for op in transaction.operations)

    def run(self) -> list[Anomaly]:
        self._order()
        self._internal()
        self._intermediate()
        self._lost_and_stale()
        self._cycles()
        return self.found

    def _tell(self, name: str, what: str) -> None:
        self.found.append(Anomaly(name, what))

    # ---- lists ----------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        """The order of each key's versions is the longest list that was read; every other must be its beginning."""
        by_key: dict[Key, set[tuple[Value, ...]]] = defaultdict(set)
        for transaction, read in self.reads:
            own = {op.value for op in transaction.operations if isinstance(op, Append)}
            for value in read.values:
                if value in self.aborted:
                    self._tell("G1a", f"T{transaction.number} reads {value} of key {read.key}, which was aborted")
                elif value not in self.writers:
                    self._tell("G1a", f"T{transaction.number} reads {value} of key {read.key}, which nobody appended")
            if len(set(read.values)) < len(read.values):
                self._tell("twice", f"T{transaction.number} reads key {read.key} as {read.values}")
            if own.isdisjoint(read.values):  # what it appended itself may still be followed by another's at its commit
                by_key[read.key].add(read.values)
            else:
                by_key[read.key].add(read.values[: min(read.values.index(v) for v in own if v in read.values)])
        for key, found in by_key.items():
            longest = max(found, key=len)
            self.lists[key] = longest
            for values in found:
                if longest[: len(values)] != values:
                    self._tell("split", f"key {key} was read as {values} and as {longest}")

    def _internal(self) -> None:
        repeatable = self.level is not Level.READ_COMMITTED
        for transaction in self.history:
            known: dict[Key, tuple[Value, ...]] = {}
            own: dict[Key, list[Value]] = defaultdict(list)
            for operation in transaction.operations:
                key = operation.key
                if isinstance(operation, Append):
                    own[key].append(operation.value)
                    if key in known:
                        known[key] = (*known[key], operation.value)
                    continue
                values, mine = operation.values, tuple(own[key])
                if mine and values[len(values) - len(mine) :] != mine:
                    self._tell("internal", f"T{transaction.number} appended {mine} to key {key} and reads {values}")
                if repeatable and known.get(key, values) != values:
                    self._tell("internal", f"T{transaction.number} reads key {key} as {values} after {known[key]}")
                known[key] = values

    def _intermediate(self) -> None:
        last: dict[tuple[int, Key], Value] = {}
        for transaction in self.history:
            for operation in transaction.operations:
                if isinstance(operation, Append):
                    last[transaction.number, operation.key] = operation.value
        for transaction, read in self.reads:
            if not read.values:
                continue
            writer = self.writers.get(read.values[-1])
            if writer is None or writer is transaction or writer.outcome is Outcome.ABORTED:
                continue
            if last.get((writer.number, read.key), read.values[-1]) != read.values[-1]:
                self._tell("G1b", f"T{transaction.number} reads key {read.key} in the middle of T{writer.number}")

    def _lost_and_stale(self) -> None:
        acknowledged: dict[Key, list[tuple[float, Value]]] = defaultdict(list)
        for transaction in self.history:
            for operation in transaction.operations:
                if isinstance(operation, Append) and transaction.outcome is Outcome.COMMITTED:
                    acknowledged[operation.key].append((transaction.ended, operation.value))
                    if operation.key in self.lists and operation.value not in self.lists[operation.key]:
                        self._tell("lost", f"T{transaction.number} appended {operation.value} to key {operation.key}")
        for transaction, read in self.reads:
            there = set(read.values)
            for ended, value in acknowledged[read.key]:
                if ended < transaction.begun and value not in there and value in self.lists[read.key]:
                    self._tell("stale", f"T{transaction.number} does not see {value} of key {read.key}")
                    break

    # ---- cycles ---------------------------------------------------------------------------------------------------

    def _edges(self) -> Iterator[tuple[int, int, str]]:
        for values in self.lists.values():
            for before, after in itertools.pairwise(values):
                yield from self._edge(self.writers.get(before), self.writers.get(after), "ww")
        for transaction, read in self.reads:
            values = tuple(v for v in read.values if self.writers.get(v) is not transaction)
            if values:
                yield from self._edge(self.writers.get(values[-1]), transaction, "wr")
            for value in self.lists[read.key][len(values) : len(values) + 1]:
                yield from self._edge(transaction, self.writers.get(value), "rw")

    @staticmethod
    def _edge(one: Transaction | None, other: Transaction | None, kind: str) -> Iterator[tuple[int, int, str]]:
        if one is not None and other is not None and one is not other:
            yield one.number, other.number, kind

    def _real_time(self) -> Iterator[tuple[int, int]]:
        """Who ended before who began, without those that follow from others."""
        moments = [(t.begun, 1, t.number) for t in self.history]
        moments += [(t.ended, 0, t.number) for t in self.history if t.outcome is Outcome.COMMITTED]
        newest: set[int] = set()
        before: dict[int, set[int]] = {}
        for _, begins, number in sorted(moments):
            if begins:
                before[number] = set(newest)
                for other in newest:
                    yield other, number
            else:
                newest -= before[number]
                newest.add(number)

    def _cycles(self) -> None:
        edges = set(self._edges())
        self._search(edges, "", set())
        timed = edges | {(one, other, "rt") for one, other in self._real_time()}
        self._search(timed, "-realtime", {anomaly.name for anomaly in self.found})

    def _search(self, edges: set[tuple[int, int, str]], suffix: str, known: set[str]) -> None:
        """`known`: kinds that were found without the clock, and are not told again with it."""
        whole = _graph(edges, ("ww", "wr", "rw", "rt"))
        for component in networkx.strongly_connected_components(whole):
            if len(component) == 1:
                continue
            inside = {edge for edge in edges if edge[0] in component and edge[1] in component}
            for name, cycle in _classify(inside):
                if name not in known:
                    self._tell(name + suffix, cycle)


def _graph(edges: Iterable[tuple[int, int, str]], kinds: Sequence[str]) -> networkx.DiGraph[int]:
    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_edges_from((one, other) for one, other, kind in edges if kind in kinds)
    return graph


def _classify(edges: set[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """The kinds of cycles within a component, each with one of them."""
    for name, kinds in (("G0", ("ww", "rt")), ("G1c", ("ww", "wr", "rt"))):
        for part in networkx.strongly_connected_components(_graph(edges, kinds)):
            if len(part) > 1:
                yield name, f"among {_shown(part)}"
                return  # every cycle that goes on from here is this one's
    # States are (transaction, whether an rw edge led there): a second one in a row leads nowhere.
    calm: networkx.DiGraph[State] = networkx.DiGraph()
    apart: networkx.DiGraph[State] = networkx.DiGraph()
    every: networkx.DiGraph[State] = networkx.DiGraph()
    for one, other, kind in edges:
        target = (other, kind == "rw")
        every.add_edges_from([((one, False), target), ((one, True), target)])
        apart.add_edge((one, False), target)
        if kind != "rw":
            apart.add_edge((one, True), target)
            calm.add_edges_from([((one, False), target), ((one, True), target)])
    ways = [("G-single", calm), ("G-nonadjacent", apart), ("G2-item", every)]
    reached = [(name, graph, _reachable(graph)) for name, graph in ways]
    told: set[str] = set()
    for one, other in sorted((one, other) for one, other, kind in edges if kind == "rw"):
        start = (other, True)
        for name, graph, reach in reached:
            ends = ((one, False), (one, True))[: 2 if graph is every else 1]  # the edge that closes the cycle is rw
            end = next((end for end in ends if reach(start, end)), None)
            if end is not None:
                if name not in told:
                    told.add(name)
                    path = networkx.shortest_path(graph, start, end)
                    yield name, f"T{one} -rw-> " + " -> ".join(f"T{state[0]}" for state in path)
                break


def _reachable(graph: networkx.DiGraph[State]) -> Callable[[State, State], bool]:
    """Whether one state leads to another: a set of bits for each component, made from the last component on."""
    component: dict[State, int] = {}
    bits: list[int] = []
    for number, states in enumerate(networkx.strongly_connected_components(graph)):  # what a state leads to comes first
        component.update(dict.fromkeys(states, number))
        found = 1 << number
        for state in states:
            for following in graph[state]:
                if component[following] != number:
                    found |= bits[component[following]]
        bits.append(found)
    return lambda one, other: (
        one in component and other in component and bool(bits[component[one]] >> component[other] & 1)
    )


def _shown(numbers: Iterable[int]) -> str:
    listed = sorted(numbers)
    return ", ".join(f"T{number}" for number in listed[:6]) + (" ..." if len(listed) > 6 else "")
