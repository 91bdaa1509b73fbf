"""The trial of statements that are to hold nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import chain

import psycopg

from tests.server import ShoalServer
from tests.torture.holding import formats
from tests.torture.holding.calls import statements
from tests.torture.holding.values import cases, prepare, send_beside
from tests.torture.holding.watching import DOUBTFUL, ENDS, HELD, MORE, TIMEOUT, TRIES, Watch, sigterm
from tests.torture.planted import PlantedServer
from tests.torture.trial import PLANTING, Result, planted_until

LONG = 240.0  # seconds in which every planted fault and both paths are tried; in fewer, those that the seed chooses
EACH = 20  # calls between two long values
LATE = 10.0  # seconds that a long value may take
MOST = 20  # problems after which it ends
PLANTED = "SELECT sign(2.5)"
ENDLESS = (  # one of each kind of step
    r"SELECT repeat('a', 45) ~ '^(a*)*\1\1x$'",
    "SELECT length(to_tsvector(repeat('abc def ', 3000000))::text)",
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 1000) c",
    "SELECT jsonb_path_exists(('[' || repeat('1,', 3000) || '1]')::jsonb, "
    "'$[*] ? (exists ($[*] ? (exists ($[*] ? (@ == 2)))))')",
)


def holding(seconds: float, seed: int, tell: Callable[[str], None]) -> Result:
    """Calls of everything there is, over values that make it take long, on both paths."""
    end = time.monotonic() + seconds
    faults = {
        "a function that holds everybody": planted,
        "one that does not end when it is cancelled": planted_stay,
        "one that does not end with the server": planted_remain,
    }
    first, *others = faults  # the first is planted whenever this runs
    result = Result(caught={first: planted()})
    for fault in planted_until(end - seconds * (1 - PLANTING), others, seed, seconds >= LONG, at_least=0):
        result.caught[fault] = faults[fault]()
    for path in planted_until(end - seconds * 0.5, ("auto", "columnar"), seed // 2, seconds >= LONG, at_least=0):
        sql = ENDLESS[seed % len(ENDLESS)]
        if problem := sigterm(ShoalServer(), sql, path):
            result.problems.append(f"{problem} ({path}): {sql}")
    ended: Counter[str] = Counter()
    worst, sent, refused = 0.0, 0, 0
    with ShoalServer() as shoal, psycopg.connect(shoal.dsn, autocommit=True) as connection, Watch(shoal) as watch:
        prepare(connection)
        connection.execute(f"SET statement_timeout = '{LATE:g}s'")
        values, calls = cases(seed), zip(statements(connection, seed), formats.statements(seed), strict=False)
        for number, sql in enumerate(chain.from_iterable(calls)):
            if time.monotonic() > end or len(result.problems) >= MOST:
                break
            if number % EACH == 0:
                case = next(values)
                held, state = send_beside(connection, watch, case)
                worst, sent = max(worst, held), sent + 1
                refused += state is not None
                if state == "XX000" or held > HELD:
                    problem = "XX000" if state == "XX000" else f"held everybody for {held:.2f} s"
                    result.problems.append(f"{problem}: {case}")
                    tell(result.problems[-1])
            path = ("auto", "columnar")[number // 2 % 2]
            for _ in range(TRIES):
                seen = watch.statement(sql, path, ENDS[number // 4 % len(ENDS)])
                if seen.defect or not HELD < seen.held < DOUBTFUL:
                    break
            worst = max(worst, seen.held)
            ended[seen.sqlstate or "answered"] += 1
            if problem := seen.problem():
                result.problems.append(f"{problem} ({path}): {sql}")
                tell(result.problems[-1])
        watch.close()
        shoal.kill()  # the worker may be at work for long
    total = result.tried = sum(ended.values())
    result.figures.append(
        f"{total:,} calls ({ended['answered']} answered, {ended['57014'] + ended['57P01']} ended at "
        f"{TIMEOUT:g} s by {', '.join(ENDS[:-1])} or {ENDS[-1]}, the rest refused); "
        f"{sent} values of 1 to 60 MB sent ({refused} of them refused, or ended at {LATE:g} s); "
        f"others waited {worst:.2f} s of processor time at most, {len(result.problems)} held them or did not end"
    )
    return result


def planted() -> bool:
    """Whether a function that holds the server for a second is noticed."""
    with PlantedServer("function", "hold") as server:
        with Watch(server) as watch:
            noticed = "held everybody" in watch.statement(PLANTED, "auto").problem()
        server.kill()
    return noticed


def planted_remain() -> bool:
    """Whether a function is noticed that goes on when the server is told to end."""
    return bool(sigterm(PlantedServer("function", "remain"), PLANTED, "auto"))


def planted_stay() -> bool:
    """Whether a function is noticed that goes on for seconds after it was cancelled."""
    with PlantedServer("function", "stay") as server:
        with Watch(server) as watch:
            seen = watch.statement(PLANTED, "auto", "pg_cancel_backend")
        server.kill()
    return seen.took > TIMEOUT + MORE
