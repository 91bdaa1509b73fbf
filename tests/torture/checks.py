"""The checkers: each compares what was told with what is there, and gives what is wrong, in words; nothing is good.

Pure functions over a history and rows, so that each can be shown to notice a planted fault (test_checks.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replication.interface import Ledger
from tests.torture.history import Event, History, Number, Outcome

SHOWN = 5  # of the same kind


def _named(what: str, found: Iterable[object]) -> list[str]:
    items = sorted(map(str, found))
    return [f"{what}: {', '.join(items[:SHOWN])}{' ...' if len(items) > SHOWN else ''} ({len(items)})"] if items else []


def _presence(name: str, events: Sequence[Event], there: Iterable[Number]) -> list[str]:
    """Acknowledged once, refused never, and nothing that nobody asked for."""
    counted = Counter(there)
    by_outcome: dict[Outcome, set[Number]] = {outcome: set() for outcome in Outcome}
    for event in events:
        by_outcome[event.outcome].add(event.number)
    asked = set().union(*by_outcome.values())
    return [
        *_named(f"{name}: acknowledged and lost", by_outcome[Outcome.ACKNOWLEDGED] - counted.keys()),
        *_named(f"{name}: refused and there", by_outcome[Outcome.REFUSED] & counted.keys()),
        *_named(f"{name}: there twice", (number for number, count in counted.items() if count > 1)),
        *_named(f"{name}: there and never asked for", counted.keys() - asked),
    ]


def check_inserts(history: History, inserts: Sequence[Number], marks: Mapping[Number, int]) -> list[str]:
    """`marks`: how many rows the same transaction has in another table."""
    found = _presence("insert", history.inserts, inserts)
    there = set(inserts)
    expected = {event.number: event.value[0] for event in history.inserts if event.number in there and event.value[0]}
    torn = [
        f"{number} has {marks.get(number, 0)} of {expected.get(number, 0)} rows"
        for number in expected.keys() | marks.keys()
        if marks.get(number, 0) != expected.get(number, 0)
    ]
    return found + _named("insert: torn", torn)


def check_transfers(
    history: History, initial: int, accounts: Mapping[int, int], transfers: Sequence[tuple[int, int, int, int, int]]
) -> list[str]:
    """`transfers`: (client, n, source, target, amount) as they are stored; `initial`: every account's first balance."""
    found = _presence("transfer", history.transfers, [(row[0], row[1]) for row in transfers])
    asked = {event.number: event.value for event in history.transfers}
    found += _named("transfer: altered", (row for row in transfers if asked.get((row[0], row[1])) != row[2:]))
    expected = dict.fromkeys(accounts, initial)
    for _, _, source, target, amount in transfers:
        expected[source] -= amount
        expected[target] += amount
    wrong = [
        f"account {one} has {accounts[one]}, not {expected[one]}" for one in accounts if accounts[one] != expected[one]
    ]
    return found + _named("transfer: torn", wrong)


def check_increments(history: History, counters: Mapping[int, int]) -> list[str]:
    """Every acknowledged increment was given a value that nobody else was given."""
    found = []
    for counter, value in counters.items():
        events = [event for event in history.increments if event.value[0] == counter]
        told = Counter(event.value[1] for event in events if event.outcome is Outcome.ACKNOWLEDGED)
        unknown = sum(event.outcome is Outcome.UNKNOWN for event in events)
        found += _named(f"counter {counter}: told twice", (one for one, count in told.items() if count > 1))
        found += _named(f"counter {counter}: told and beyond its end {value}", (one for one in told if one > value))
        acknowledged = sum(told.values())
        if not acknowledged <= value <= acknowledged + unknown:
            found.append(f"counter {counter} is {value}: {acknowledged} acknowledged, {unknown} unknown")
    return found


_LEADS = re.compile(r"shoal\.log INFO (\S+) leads ([0-9a-f]{32}) from LSN (\d+) on, epoch (\d+)")


@dataclass(frozen=True, slots=True)
class Term:
    node: str
    epoch: int
    first: int  # LSN behind which it begins


def terms(logs: Iterable[str], tablespace: str) -> list[Term]:
    """Of everything that the nodes wrote to stderr. `tablespace`: its id, 32 hexadecimal digits."""
    found = [item for text in logs for item in _LEADS.finditer(text)]
    return [Term(item[1], int(item[4]), int(item[3])) for item in found if item[2] == tablespace]


def check_terms(led: Sequence[Term], ledgers: Sequence[Ledger], entries: Sequence[tuple[int, int]]) -> list[str]:
    """One leader in an epoch, and entries of it only in its ledgers. `entries`: (LSN, epoch) of the whole log."""
    leaders: dict[int, set[str]] = {}
    for term in led:
        leaders.setdefault(term.epoch, set()).add(term.node)
    found = _named(
        "epoch with several leaders", ((epoch, sorted(nodes)) for epoch, nodes in leaders.items() if len(nodes) > 1)
    )
    counted = Counter(term.epoch for term in led)
    found += _named("epoch that began twice", (epoch for epoch, count in counted.items() if count > 1))
    began = {term.epoch: term.first for term in led}
    found += _named("entries of an epoch that nobody led", {epoch for _, epoch in entries} - began.keys())
    found += _named(
        "entries from before their epoch", (lsn for lsn, epoch in entries if lsn <= began.get(epoch, lsn - 1))
    )
    epochs = [epoch for _, epoch in entries]
    if epochs != sorted(epochs):
        found.append("an older epoch has entries behind a newer one's")
    lsns = [lsn for lsn, _ in entries]
    if lsns and lsns != list(range(lsns[0], lsns[0] + len(lsns))):
        found.append("LSNs have gaps, or come twice")
    wrong = []
    for ledger in ledgers:
        last = ledger.last if ledger.last is not None else (lsns[-1] if lsns else 0)
        wrong += [lsn for lsn, epoch in entries if ledger.first <= lsn <= last and epoch != ledger.epoch]
    return found + _named("entries in another epoch's ledger", wrong)


def check_replicas(digests: Mapping[str, tuple[int, str]]) -> list[str]:
    """`digests`: (LSN, hash of everything) of each replica."""
    if len(set(digests.values())) <= 1:
        return []
    return [f"replicas differ: {dict(digests)}"]


def check_logs(logs: Mapping[str, str]) -> list[str]:
    """Nothing that happens to a cluster is a surprise to a node: no traceback, no defect in what it writes.
    `logs`: by node."""
    found = []
    for name, text in logs.items():
        lines = [line.removeprefix("    ") for line in text.splitlines()]  # tracebacks are set in
        for number, line in enumerate(lines):
            # What ends a session is CRITICAL of its statement: its client is told, and judged by what it was told.
            fatal = " CRITICAL " in line and " shoal.statement " not in line
            if line.startswith("Traceback") or "internal error" in line or fatal:
                end = next((i for i in range(number + 1, len(lines)) if not lines[i].startswith(" ")), number)
                found.append(f"{name}: {lines[max(number - 1, 0)][:200]} | {line[:200]} | {lines[end][:300]}")
    return [*found[:SHOWN], *([f"... ({len(found)})"] if len(found) > SHOWN else [])]
