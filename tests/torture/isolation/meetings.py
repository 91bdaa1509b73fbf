"""Two to four sessions that meet: scripts of statements, step by step in one order, on Shoal and on PostgreSQL.

A scenario is made from a seed: a theme of themes.py (tables, and statements that get in each other's way there), an
isolation level, statements and an end for each session, and the order of the steps. A step whose session waits comes
when it has gone on. What is compared: what each step gives (rows, the command tag or the SQLSTATE), whether it waits,
which steps of others let it go on, and what is in the tables in the end.

A scenario ends, and what follows is not compared, where
    there is a deadlock            PostgreSQL looks for one when somebody has waited `deadlock_timeout`: whom it ends is
                                   a matter of time
    40001 tells of dependencies    of SERIALIZABLE: PostgreSQL watches pages, Shoal keys and ranges (whether results are
                                   serializable is what histories tell)
    40001 tells of a move          to another partition, at READ COMMITTED: Shoal looks for the row anew
    23514 tells of a partition     that has got other bounds while an INSERT into its parent waited: Shoal asks anew
                                   where the row goes
    other partitions               somebody differs who has waited for an ATTACH or DETACH: Shoal plans his statement
                                   anew, PostgreSQL goes on with the partitions that it had before (docs/sql.md)
    40P01 tells of an object       that a transaction changes twice and others change too: PostgreSQL's GRANT locks less
                                   of it than its DROP, Shoal's as much (docs/sql.md), so that nobody gets in between
    PostgreSQL waits at NOWAIT     or SKIP LOCKED: for who has locked the newer version of a row, which it
                                   looks for when it has the lock of the older one
    two have waited for one end    and go on at once, each in its own process: who is first is a matter of time, and
                                   so is whether PostgreSQL's then get in each other's way
    a key is there twice           in one snapshot of PostgreSQL: a row that another has deleted since, and the
                                   transaction's own new row under its key; Shoal shows the new one (docs/sql.md)
    two wait for one end           and one of them goes on: what comes of the other depends on who was first
    rows FOR KEY SHARE             have waited for one of them: of the others PostgreSQL shows new versions if the
                                   transaction that made them had locked them FOR UPDATE
    several share a row            and who waits for all of them and one of them wait for each other: PostgreSQL waits
                                   for one after the other, and finds the deadlock when the others have ended
    a sequence's lock              stays in PostgreSQL when the savepoint before it is rolled back
    a name is not there            any more, and another table of the statement is locked: Shoal says so before it
                                   waits (docs/sql.md)
    PostgreSQL finds no end        of a wait for a safe snapshot although nobody is in its way, which happens when two
                                   sessions wait for one
    40001 is given earlier         to who waits for a row that has changed: PostgreSQL lets him wait until nobody else
                                   holds it
    0A000                          tells what Shoal does not do
    XX000, 23505 of the catalog    "tuple concurrently updated" and the like of PostgreSQL, where Shoal makes the later
                                   one of two changes of an object on top of the earlier one (docs/sql.md)

Rows are read, and so locked, in the order in which PostgreSQL has them: no statement moves one behind another that a
later statement writes too, where order decides who waits (docs/sql.md: order without ORDER BY), or the theme is read
`by_key`, and its statements have conditions that let PostgreSQL do that.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from psycopg import pq

from tests.torture.isolation.themes import THEMES, Theme

PATIENCE = 30.0
LOOKED = 0.015  # seconds after which who waits has looked for a deadlock
MOST = 5  # differences after which one looks no further
BY_KEY = "SET enable_seqscan = {0}; SET enable_bitmapscan = {0}"
WEIGHTS = {"READ COMMITTED": 6, "REPEATABLE READ": 3, "SERIALIZABLE": 1, "SERIALIZABLE READ ONLY DEFERRABLE": 1}
DEPENDENCIES, MOVED, OUTSIDE = "40001 of dependencies", "40001 of a move", "23514 of a partition"
CATALOG, PLANNED = "23505 of the catalog", "other partitions"
CACHED = "a right from the cache"
OBJECT = "40P01 of an object"
NO_WAIT = "a wait at NOWAIT"
TWICE = "a key twice"
EARLIER = "40001 earlier"
SEQUENCE = "a sequence's lock"
NAMES = "a name before a lock"
STUCK = "PostgreSQL finds no end"
VERSIONS = "versions of other rows"
KINDS = {
    b"read/write dependencies": DEPENDENCIES,
    b"moved to another partition": MOVED,
    b"partition constraint": OUTSIDE,
    b'unique constraint "pg_': CATALOG,
}
DEADLOCK, REFUSED, WAITS, RACE = "40P01", "0A000", "waits", "two continue"
Rewrite = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`scripts`: what each session runs. `order`: whose step comes next."""

    theme: Theme
    scripts: tuple[tuple[str, ...], ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        scripts = "\n".join(f"  {name}: {'; '.join(script)}" for name, script in enumerate(self.scripts))
        return f"{self.theme.name}, order {''.join(map(str, self.order))}\n{scripts}"


def make(seed: int, themes: Sequence[Theme] = tuple(THEMES.values())) -> Scenario:
    chance = random.Random(seed)
    theme = themes[seed % len(themes)]
    level = chance.choices(theme.levels, [WEIGHTS[level] for level in theme.levels])[0]
    scripts = []
    for _ in range(chance.choices((3, 4) if theme.crowd else (2, 3), (3, 1))[0]):
        own = level if chance.random() < 0.8 else chance.choice(theme.levels)
        lengths = (1, 4, 3) if theme.crowd else (5, 3, 1)
        reads = own.endswith("DEFERRABLE")  # what may not run there fails, in PostgreSQL when the snapshot is safe
        statements = [item for item in theme.statements if item.startswith("SELECT")] if reads else theme.statements
        body = [chance.choice(statements) for _ in range(chance.choices((1, 2, 3), lengths)[0])]
        if chance.random() < 0.15:
            place = chance.randrange(len(body) + 1)
            body[place:place] = ["SAVEPOINT s"]
            body.append(chance.choice(("ROLLBACK TO s", "RELEASE s")))
        if len(body) == 1 and own == "READ COMMITTED" and not theme.crowd and chance.random() < 0.4:
            scripts.append(tuple(body))
        else:
            scripts.append((f"BEGIN ISOLATION LEVEL {own}", *body, chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))))
    order = [name for name, script in enumerate(scripts) for _ in script]
    chance.shuffle(order)
    return Scenario(theme, tuple(scripts), tuple(order))


class StuckError(AssertionError):
    """A statement neither ends nor waits for anybody."""


class Session:
    """A connection that shows whether its statement has ended."""

    def __init__(self, dsn: str, rewrite: Rewrite = str) -> None:
        self._connection = pq.PGconn.connect(f"{dsn} options='-c search_path=meeting -c deadlock_timeout=10'".encode())
        assert self._connection.status == pq.ConnStatus.OK, self._connection.error_message
        self._rewrite = rewrite
        self.pid = self._connection.backend_pid
        self.running = False
        self._results: list[pq.abc.PGresult] = []

    def start(self, sql: str) -> None:
        self._connection.send_query(self._rewrite(sql).encode())
        self.running, self._results = True, []

    def outcome(self) -> str | None:
        """What the statement has given; None while it runs."""
        self._connection.consume_input()
        while not self._connection.is_busy():
            result = self._connection.get_result()
            if result is None:
                self.running = False
                return "; ".join(_told(item) for item in self._results)
            self._results.append(result)
        return None

    def run(self, sql: str) -> str:
        self.start(sql)
        until = time.monotonic() + PATIENCE
        while (found := self.outcome()) is None:
            assert time.monotonic() < until, f"no end of {sql}"
            time.sleep(0.0003)
        return found

    def cancel(self) -> None:
        self._connection.get_cancel().cancel()

    def close(self) -> None:
        self._connection.finish()


def _told(result: pq.abc.PGresult) -> str:
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    if state is not None:
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        return next((kind for words, kind in KINDS.items() if words in message), state.decode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        return (result.command_status or b"").decode()
    rows = [
        tuple((result.get_value(row, column) or b"").decode() for column in range(result.nfields))
        for row in range(result.ntuples)
    ]
    return f"{(result.command_status or b'').decode()} {sorted(rows)}"


class Place:
    """A server where sessions meet. `rewrite`: what is run in place of a statement, for a planted fault."""

    def __init__(self, dsn: str, rewrite: Rewrite = str) -> None:
        self.sessions = [Session(dsn, rewrite) for _ in range(4)]
        self._watcher = Session(dsn, rewrite)
        waits = "pg_blocking_pids({0}) || pg_safe_snapshot_blocking_pids({0})"
        self._look = f"SELECT {', '.join(waits.format(session.pid) for session in self.sessions)}"
        self._made: set[str] = set()
        self._by_key = False
        self._watcher.run("DROP SCHEMA IF EXISTS meeting CASCADE")
        self._watcher.run("CREATE SCHEMA meeting")

    def play(self, scenario: Scenario) -> list[str]:
        """What happens, a line for each step, and for each that goes on after a wait."""
        self._prepare(scenario.theme)
        lines: list[str] = []
        scripts = [list(script) for script in scenario.scripts]
        order = list(scenario.order)
        while order:
            free = next((name for name in order if not self.sessions[name].running), None)
            if free is None:
                lines.append("all wait")
                break
            order.remove(free)
            self.sessions[free].start(scripts[free].pop(0))
            running = [name for name, session in enumerate(self.sessions) if session.running]
            began = time.monotonic()
            ended = self._settle(running)
            if scenario.theme.crowd and free not in ended:
                time.sleep(max(LOOKED - (time.monotonic() - began), 0.0))
            if any(told.endswith(DEADLOCK) for told in ended.values()):
                lines.append(f"{free}: {DEADLOCK} of somebody")
                break
            lines.append(f"{free}: {ended.pop(free, WAITS)}")
            if len(ended) > 1:
                lines.append(RACE)
                break
            lines += [f"{name} goes on: {told}" for name, told in ended.items()]
        self._end()
        if DEADLOCK in lines[-1] or RACE in lines[-1]:
            return lines
        lines += [f"{table}: {self._watcher.run(f'SELECT * FROM {table}')}" for table in scenario.theme.tables]
        return lines

    def _prepare(self, theme: Theme) -> None:
        if theme.by_key != self._by_key:
            self._by_key = theme.by_key
            for session in self.sessions:
                session.run(BY_KEY.format("off" if theme.by_key else "on"))
        if theme.name in self._made and theme.rows_alone:
            self._watcher.run(theme.rows)
            return
        found = self._watcher.run(f"{theme.schema}; {theme.rows}")
        self._made.add(theme.name)
        assert not re.search(r"\b[0-9A-Z]{5}$", found), f"{theme.name}: {found}"

    def _settle(self, running: Iterable[int]) -> dict[int, str]:
        """What has ended, when all that has not waits for somebody."""
        ended: dict[int, str] = {}
        until = time.monotonic() + PATIENCE
        while True:
            for name in running:
                if name not in ended and (told := self.sessions[name].outcome()) is not None:
                    ended[name] = told
            left = {self.sessions[name].pid for name in running if name not in ended}
            if not left:
                return ended
            edges = self._edges()
            if left <= edges.keys() and not _cyclic(edges):
                return ended
            if time.monotonic() > until:
                raise StuckError(f"neither an end nor a wait: {left}, {edges}")
            time.sleep(0.0005)

    def _edges(self) -> dict[int, set[int]]:
        """Who waits for whom, by process id."""
        found = self._watcher.run(self._look)
        pids = [{int(pid) for pid in re.findall(r"\d+", part)} for part in re.findall(r"\{([^}]*)\}", found)]
        return {session.pid: waits for session, waits in zip(self.sessions, pids, strict=True) if waits}

    def _end(self) -> None:
        """Ends all transactions, one after the other as they go on."""
        until = time.monotonic() + PATIENCE
        left = list(self.sessions)
        while left:
            for session in list(left):
                if not session.running or session.outcome() is not None:
                    session.run("ROLLBACK")
                    left.remove(session)
            assert time.monotonic() < until, "a session waits for nobody"
            time.sleep(0.0005)

    def cancel(self) -> None:
        """Ends what is running."""
        for session in self.sessions:
            if session.running:
                session.cancel()
        self._end()

    def close(self) -> None:
        for session in (*self.sessions, self._watcher):
            session.close()


def _cyclic(edges: dict[int, set[int]]) -> bool:
    def reaches(start: int) -> bool:
        seen: set[int] = set()
        found = set(edges.get(start, ()))
        while found - seen:
            seen |= found
            found = {pid for item in found for pid in edges.get(item, ())}
        return start in seen

    return any(reaches(pid) for pid in edges)


@dataclass(slots=True)
class Tally:
    scenarios: int = 0
    steps: int = 0
    waits: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)  # why scenarios ended before the end
    failures: list[str] = field(default_factory=list)


def compare(scenario: Scenario, theirs: Place, ours: Place, tally: Tally | None = None) -> str:
    """The first difference, "" if there is none."""
    try:
        wanted = theirs.play(scenario)
    except StuckError:
        theirs.cancel()
        if tally is not None:
            tally.cut[STUCK] += 1
        return ""
    got = ours.play(scenario)
    if tally is not None:
        tally.scenarios += 1
        tally.steps += len(scenario.order)
        tally.waits += sum(line.endswith(WAITS) for line in wanted)
        tally.errors.update(re.findall(r": ([0-9A-Z]{5})$", "\n".join(wanted), re.MULTILINE))
    for number, (one, other) in enumerate(zip(wanted, got, strict=False)):
        if (
            why := _ends(one, other)
            or _planned_anew(scenario, wanted[: number + 1], other)
            or _cached(scenario, one, other)
            or _changed_twice(scenario, one, other)
            or _waits_all_the_same(scenario, wanted[:number], one, other)
            or _released_together(wanted[:number], one, other)
            or _key_twice(scenario, one, other)
            or _fails_earlier(wanted[:number], one, other)
            or _behind_another(wanted[:number], one, other)
            or _sequence_kept(scenario, one, other)
            or _versions_differ(scenario, wanted[: number + 1], other)
            or _one_by_one(scenario, one, other)
        ):
            if tally is not None:
                tally.cut[why] += 1
            return ""
        if one != other:
            before = "".join(f"    {line}\n" for line in wanted[:number])
            return f"{scenario}\n{before}    PostgreSQL: {one}\n    Shoal:      {other}"
    return "" if len(wanted) == len(got) else f"{scenario}\n    one ends, the other goes on"


def _planned_anew(scenario: Scenario, lines: Sequence[str], other: str) -> str:
    """PLANNED where the last line is a difference after a wait for somebody who has changed the schema."""
    if lines[-1] == other or "goes on" not in lines[-1] or "goes on" not in other:
        return ""
    ender = next(line for line in reversed(lines) if "goes on" not in line)[0]
    changes = re.compile("ATTACH|DETACH")
    return PLANNED if any(map(changes.search, scenario.scripts[int(ender)])) else ""


def _cached(scenario: Scenario, one: str, other: str) -> str:
    """CACHED where they differ in a right that a transaction has asked for before: without a new lock PostgreSQL looks
    at no invalidations, and answers from its cache."""
    if one == other or not one[0].isdigit():
        return ""
    script = scenario.scripts[int(one[0])]
    again = any("has_table_privilege" in statement and script.count(statement) > 1 for statement in script)
    rights = re.compile(r": SELECT 1 \[\('[tf]',\)\]$")
    return CACHED if again and rights.search(one) and rights.search(other) else ""


def _changed_twice(scenario: Scenario, one: str, other: str) -> str:
    """OBJECT where only PostgreSQL has a deadlock, in a transaction that changes an object of the schema twice which
    another one changes too."""
    if DEADLOCK not in one or DEADLOCK in other or other.endswith(WAITS):
        return ""
    changes = re.compile(r"^(?:GRANT|REVOKE|CREATE|ALTER|DROP)\b.* (g|en|dom|f\(\))")
    changed = [
        Counter(found[1] for statement in script if (found := changes.search(statement))) for script in scenario.scripts
    ]
    own = changed.pop(int(one[0]))
    twice = {name for name, times in own.items() if times > 1}
    return OBJECT if any(twice & found.keys() for found in changed) else ""


def _waits_all_the_same(scenario: Scenario, lines: Sequence[str], one: str, other: str) -> str:
    """NO_WAIT where PostgreSQL waits in a statement that does not want to."""
    if one == other or not one.endswith(WAITS):
        return ""
    step = sum(line.startswith(f"{one[0]}: ") for line in lines)
    statement = scenario.scripts[int(one[0])][step]
    return NO_WAIT if statement.endswith(("NOWAIT", "SKIP LOCKED")) else ""


def _released_together(lines: Sequence[str], one: str, other: str) -> str:
    """RACE where only one server has a deadlock, at the end of somebody for whom two have waited."""
    waiting = _waiters(lines)
    ends = any(line.endswith(("COMMIT", "ROLLBACK")) for line in (one, other))
    return RACE if ends and (DEADLOCK in one) != (DEADLOCK in other) and len(waiting) > 1 else ""


def _key_twice(scenario: Scenario, one: str, other: str) -> str:
    """TWICE where only PostgreSQL shows two rows with one primary key."""
    if one == other or not one[0].isdigit() or "READ COMMITTED" in scenario.scripts[int(one[0])][0]:
        return ""
    keys = re.compile(r"\(('\d+'),")
    theirs, ours = keys.findall(one), keys.findall(other)
    return TWICE if len(set(theirs)) < len(theirs) and sorted(set(theirs)) == sorted(ours) else ""


def _fails_earlier(lines: Sequence[str], one: str, other: str) -> str:
    """EARLIER where only Shoal ends a wait with 40001, and PostgreSQL's goes on."""
    found = re.fullmatch(r"(\d) goes on: 40001", other)
    return EARLIER if found and found[1] in _waiters(lines) and one[0] != found[1] else ""


def _behind_another(lines: Sequence[str], one: str, other: str) -> str:
    """RACE where something else comes of a wait that went on when the end of somebody let another go on."""
    if one == other or not (one[1:].startswith(" goes on") and other[1:].startswith(" goes on")) or one[0] != other[0]:
        return ""
    went_on = [number for number, line in enumerate(lines) if "goes on" in line]
    return RACE if any(one[0] in _waiters(lines[: number + 1]) for number in went_on) else ""


def _sequence_kept(scenario: Scenario, one: str, other: str) -> str:
    """SEQUENCE where only PostgreSQL waits for a sequence that another has changed before ROLLBACK TO."""
    if one == other or not one.endswith(WAITS) or one[0] != other[0]:
        return ""
    others = [script for name, script in enumerate(scenario.scripts) if name != int(one[0])]
    sequence = re.compile("SEQUENCE s|nextval")
    return SEQUENCE if any("ROLLBACK TO s" in script and any(map(sequence.search, script)) for script in others) else ""


def _versions_differ(scenario: Scenario, lines: Sequence[str], other: str) -> str:
    """VERSIONS where FOR KEY SHARE goes on and gives other versions of the same rows, of which there are several."""
    one = lines[-1]
    if one == other or not other.startswith(f"{one[0]} goes on: SELECT"):
        return ""
    step = sum(line.startswith(f"{one[0]}: ") for line in lines) - 1
    keys = [re.findall(r"\(('\d+'),", line) for line in (one, other)]
    shared = scenario.scripts[int(one[0])][step].endswith("FOR KEY SHARE")
    return VERSIONS if shared and keys[0] == keys[1] and len(keys[0]) > 1 else ""


def _one_by_one(scenario: Scenario, one: str, other: str) -> str:
    """DEADLOCK where only PostgreSQL still waits, and several sessions may share the lock of a row."""
    shares = re.compile("SHARE|INTO c|UPDATE c")
    sharers = sum(any(map(shares.search, script)) for script in scenario.scripts)
    return DEADLOCK if one.endswith(WAITS) and DEADLOCK in other and sharers > 1 and len(scenario.scripts) > 2 else ""


def _waiters(lines: Sequence[str]) -> set[str]:
    """Who waits after these lines."""
    waiting: set[str] = set()
    for line in lines:
        if line.endswith(WAITS):
            waiting.add(line[0])
        elif "goes on" in line:
            waiting.discard(line[0])
    return waiting


def _ends(one: str, other: str) -> str:
    """Why nothing is compared from here on, "" where it is."""
    if DEADLOCK in one and DEADLOCK in other:
        return DEADLOCK
    if "goes on" in one and "goes on" in other and one.split(maxsplit=1)[0] != other.split(maxsplit=1)[0]:
        return RACE
    if REFUSED in other and REFUSED not in one:
        return REFUSED
    if DEPENDENCIES in other:
        return DEPENDENCIES
    if RACE in other:
        return RACE
    if one.endswith(WAITS) and other[0] == one[0] and other.endswith(("42P01", "42703")):
        return NAMES
    return next((why for why in (DEPENDENCIES, MOVED, OUTSIDE, CATALOG, RACE, "XX000") if why in one), "")


def shortened(scenario: Scenario, theirs: Place, ours: Place) -> str:
    """The difference that a scenario shows, with as few steps as show one."""
    shown = compare(scenario, theirs, ours)
    shorter = True
    while shown and shorter:
        shorter = False
        for name, script in enumerate(scenario.scripts):
            for place in range(len(script)):
                smaller = _without(scenario, name, place)
                if smaller is not None and (difference := compare(smaller, theirs, ours)):
                    scenario, shown, shorter = smaller, difference, True
                    break
            if shorter:
                break
    return shown


def _without(scenario: Scenario, name: int, place: int) -> Scenario | None:
    """The scenario without one step; BEGIN goes with the end of its block."""
    script = list(scenario.scripts[name])
    gone = {place}
    if script[place].startswith("BEGIN"):
        gone.add(len(script) - 1)
    elif place == len(script) - 1 and script[0].startswith("BEGIN"):
        return None
    order = list(scenario.order)
    for step in sorted(gone, reverse=True):
        at = [number for number, item in enumerate(order) if item == name][step]
        del order[at], script[step]
    scripts = (*scenario.scripts[:name], tuple(script), *scenario.scripts[name + 1 :])
    return replace(scenario, scripts=scripts, order=tuple(order))


def run_meetings(seed: int, seconds: float, theirs: Place, ours: Place, most: int = MOST) -> Tally:
    """Scenarios of the seeds from `seed` on, for so many seconds, or until so many have failed."""
    tally = Tally()
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(tally.failures) < most:
        scenario = make(seed)
        if compare(scenario, theirs, ours, tally) and (shown := shortened(scenario, theirs, ours)):
            tally.failures.append(f"seed {seed}: {shown}")
        seed += 1
    return tally


EARLIER, LATER = tuple(THEMES.values())[:10], tuple(THEMES.values())[10:]
"""The themes of seeds that are written down, and those that came after them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`pattern` in statements becomes `new`. `soon`: a seed whose scenario of the `themes` met it when this was
    written."""

    pattern: str
    new: str
    soon: int
    themes: Sequence[Theme] = EARLIER


SEEDS = range(1, 400)
FAULTS = {
    "FOR SHARE is FOR KEY SHARE": Fault(r"FOR SHARE", "FOR KEY SHARE", 20),
    "REPEATABLE READ is READ COMMITTED": Fault("REPEATABLE READ", "READ COMMITTED", 170),
    "ROLLBACK commits": Fault("^ROLLBACK$", "COMMIT", 2),
    "a foreign key is none": Fault(r"REFERENCES p\b( \(k\))?[^,)]*", "CHECK (true)", 13),
    "EXCLUSIVE is SHARE ROW EXCLUSIVE": Fault("IN EXCLUSIVE", "IN SHARE ROW EXCLUSIVE", 158),
    "no safe snapshot is waited for": Fault(" DEFERRABLE", "", 14),
    "CONCURRENTLY is left out": Fault(" CONCURRENTLY| \\(CONCURRENTLY\\)", "", 23, LATER),
    "nobody is waited for": Fault("^(DELETE|UPDATE)", r"SET lock_timeout = 1; \1", 1),
}


def planted(fault: Fault) -> Rewrite:
    return lambda sql: re.sub(fault.pattern, fault.new, sql)


def noticed(fault: Fault, theirs: Place, faulty: Place, end: float = float("inf")) -> bool | None:
    """Whether scenarios tell a server with the fault from one without; None if the time `end` came before all of SEEDS
    were tried."""
    for seed in (fault.soon, *SEEDS):
        if compare(make(seed, fault.themes), theirs, faulty):
            return True
        if time.monotonic() > end:
            return None
    return False
