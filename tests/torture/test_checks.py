"""Every checker notices the fault that it is for. (That the faults reach it from a real cluster:
`python -m tests.torture.cluster --plant ...`.)"""

from __future__ import annotations

import pytest

from replication.interface import Ledger
from tests.torture.checks import (
    Term,
    check_increments,
    check_inserts,
    check_logs,
    check_replicas,
    check_terms,
    check_transfers,
    terms,
)
from tests.torture.history import Event, History, Number, Outcome, judge

ACKNOWLEDGED, REFUSED, UNKNOWN = Outcome.ACKNOWLEDGED, Outcome.REFUSED, Outcome.UNKNOWN


def event(n: int, outcome: Outcome, *value: int, client: int = 0) -> Event:
    return Event((client, n), outcome, float(n), n + 0.5, "n1", value=value)


@pytest.fixture
def history() -> History:
    """0 and 1 acknowledged, 2 refused, 3 and 4 unknown, of each kind."""
    outcomes = (ACKNOWLEDGED, ACKNOWLEDGED, REFUSED, UNKNOWN, UNKNOWN)
    history = History()
    for n, outcome in enumerate(outcomes):
        history.inserts.append(event(n, outcome, n))
        history.transfers.append(event(n, outcome, 0, 1, 10 + n))
        history.increments.append(event(n, outcome, 0, n + 1 if outcome is ACKNOWLEDGED else -1))
    return history


INSERTS: list[Number] = [(0, 0), (0, 1), (0, 3)]
MARKS = {(0, 1): 1, (0, 3): 3}


def test_inserts_as_they_should_be(history: History) -> None:
    assert check_inserts(history, INSERTS, MARKS) == []


@pytest.mark.parametrize(
    ("inserts", "marks", "expected"),
    [
        ([(0, 0), (0, 3)], {(0, 3): 3}, "insert: acknowledged and lost: (0, 1) (1)"),
        ([*INSERTS, (0, 2)], {**MARKS, (0, 2): 2}, "insert: refused and there: (0, 2) (1)"),
        ([*INSERTS, (0, 0)], MARKS, "insert: there twice: (0, 0) (1)"),
        ([*INSERTS, (7, 7)], MARKS, "insert: there and never asked for: (7, 7) (1)"),
        (INSERTS, {(0, 1): 1, (0, 3): 2}, "insert: torn: (0, 3) has 2 of 3 rows (1)"),
        (INSERTS, {**MARKS, (0, 4): 4}, "insert: torn: (0, 4) has 4 of 0 rows (1)"),
    ],
)
def test_faults_of_inserts(history: History, inserts: list[Number], marks: dict[Number, int], expected: str) -> None:
    assert check_inserts(history, inserts, marks) == [expected]


STORED = [(0, 0, 0, 1, 10), (0, 1, 0, 1, 11), (0, 4, 0, 1, 14)]


def test_transfers_as_they_should_be(history: History) -> None:
    assert check_transfers(history, 100, {0: 65, 1: 135}, STORED) == []


def test_faults_of_transfers(history: History) -> None:
    (torn,) = check_transfers(history, 100, {0: 65, 1: 134}, STORED)
    assert torn == "transfer: torn: account 1 has 134, not 135 (1)"
    (altered,) = check_transfers(history, 100, {0: 64, 1: 136}, [*STORED[:2], (0, 4, 0, 1, 15)])
    assert altered.startswith("transfer: altered: (0, 4, 0, 1, 15)")
    (lost,) = check_transfers(history, 100, {0: 76, 1: 124}, [STORED[0], STORED[2]])
    assert lost == "transfer: acknowledged and lost: (0, 1) (1)"


@pytest.mark.parametrize("value", [2, 3, 4])
def test_increments_as_they_should_be(history: History, value: int) -> None:
    assert check_increments(history, {0: value}) == []


def test_faults_of_increments(history: History) -> None:
    assert check_increments(history, {0: 5}) == ["counter 0 is 5: 2 acknowledged, 2 unknown"]
    assert check_increments(history, {0: 1})[0] == "counter 0: told and beyond its end 1: 2 (1)"
    history.increments.append(event(9, ACKNOWLEDGED, 0, 2))
    assert "counter 0: told twice: 2 (1)" in check_increments(history, {0: 3})


TERMS = [Term("n1", 1, 0), Term("n2", 2, 3), Term("n1", 4, 5)]
LEDGERS = [Ledger(1, 1, 1, 3), Ledger(2, 2, 4, 5), Ledger(3, 4, 6)]
ENTRIES = [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 4)]


def test_terms_as_they_should_be() -> None:
    assert check_terms(TERMS, LEDGERS, ENTRIES) == []


@pytest.mark.parametrize(
    ("led", "entries", "expected"),
    [
        ([*TERMS, Term("n3", 2, 4)], ENTRIES, "epoch with several leaders: (2, ['n2', 'n3']) (1)"),
        ([*TERMS, Term("n2", 2, 3)], ENTRIES, "epoch that began twice: 2 (1)"),
        ([TERMS[0], TERMS[2]], ENTRIES, "entries of an epoch that nobody led: 2 (1)"),
        ([TERMS[0], Term("n2", 2, 4), TERMS[2]], ENTRIES, "entries from before their epoch: 4 (1)"),
        (TERMS, [*ENTRIES[:4], (5, 4), (6, 2)], "an older epoch has entries behind a newer one's"),
        (TERMS, [*ENTRIES[:2], *ENTRIES[3:]], "LSNs have gaps, or come twice"),
        (TERMS, [*ENTRIES[:4], (5, 4), (6, 4)], "entries in another epoch's ledger: 5 (1)"),
    ],
)
def test_faults_of_terms(led: list[Term], entries: list[tuple[int, int]], expected: str) -> None:
    assert expected in check_terms(led, LEDGERS, entries)


def test_terms_are_read_from_logs() -> None:
    line = f"2026-11-20 09:33:16,545 shoal.log INFO n1 leads {'a' * 32} from LSN 104 on, epoch 2\n"
    assert terms(["something\n" + line, ""], "a" * 32) == [Term("n1", 2, 104)]
    assert terms([line], "b" * 32) == []


def test_replicas_that_differ() -> None:
    same = (7, "abc")
    assert check_replicas({"n1": same, "n2": same}) == []
    assert check_replicas({"n1": same, "n2": (7, "abd")}) and check_replicas({"n1": same, "n2": (6, "abc")})


def test_tracebacks_in_logs() -> None:
    good = "2026-11-20 09:33:16,545 shoal.log INFO n1 leads\n"
    assert check_logs({"n1": good}) == []
    (found,) = check_logs(
        {"n1": good + 'ERROR x\n    Traceback (most recent call last):\n      File "a"\n    KeyError: 1\n'}
    )
    assert found == "n1: ERROR x | Traceback (most recent call last): | KeyError: 1"


def test_what_an_error_says_of_the_work() -> None:
    assert judge("40001", True) is REFUSED and judge("57P03", True) is REFUSED
    assert judge("08007", True) is UNKNOWN and judge(None, True) is UNKNOWN and judge("57P01", True) is UNKNOWN
    assert judge(None, False) is REFUSED and judge("57P01", False) is REFUSED
    assert judge("XX000", True) is None and judge("23505", True) is None
