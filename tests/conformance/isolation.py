"""PostgreSQL's isolation specs, by permutation: what each step gives, in which order steps wait and end.

A step is sent, and either ends or is found waiting: `pg_isolation_test_session_is_blocked` says so, asked through a
connection of its own. A transcript is what isolationtester prints, as a list; it is compared with PostgreSQL's.
"""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import select
import time
from typing import Any

from psycopg import pq

from tests.conformance import exchange
from tests.conformance.spec import Session, Spec, Turn, parse
from tests.conformance.suite import OneByOne, Progress, Record, Records, Target, corpora

STEP_LIMIT = 20.0  # seconds; the longest that a spec of PostgreSQL 15 waits is a deadlock_timeout of 10 s
LOOK = 0.01  # seconds between looks at a step that has not ended
SLOW = 60.0  # seconds a permutation


class Isolation(OneByOne):
    """See the module's text."""

    name = "isolation"
    title = "PostgreSQL isolation, part"
    unit = "permutations"
    floor = 0.75
    seconds = 900.0

    def _specs(self) -> list[pathlib.Path]:
        place = corpora()
        return [] if place is None else sorted((place / "pg_isolation" / "specs").glob("*.spec"))

    def missing(self) -> str:
        return "" if self._specs() else "no pg_isolation in $SHOAL_CORPORA"

    def fingerprint(self) -> str:
        return hashlib.sha256(b"".join(path.read_bytes() for path in self._specs())).hexdigest()[:12]

    def run(self, target: Target, progress: Progress) -> Records:
        records: Records = {}
        paths = self._specs()
        for number, path in enumerate(paths, 1):
            self.cut = progress.left < 0
            if self.cut:
                break
            spec = parse(path.read_text())
            for index, turns in enumerate(spec.permutations, 1):
                records[f"{path.stem}:{index}"] = run_permutation(target.dsn(), spec, turns)
            progress.step(number, len(paths), f"specs ({path.stem})")
        return records

    def counts(self, record: Record) -> bool:
        return not any(entry[0] == "gave up" for entry in record)

    def compare(self, test: str, wanted: Record, got: Record | None) -> str:
        return "not run" if got is None else difference(wanted, got)


def run_permutation(dsn: str, spec: Spec, turns: tuple[Turn, ...]) -> list[Any]:
    """The transcript: entries ["setup" | "teardown", what came back], ["step", name, SQL, what came back],
    ["waiting", name], ["gave up", why]."""
    transcript: list[Any] = []
    control = exchange.connect(dsn)
    actors: list[_Actor] = []
    try:
        for sql in spec.setups:
            _note_errors(transcript, "setup", exchange.run(control, sql, STEP_LIMIT))
        actors = [_Actor(dsn, session) for session in spec.sessions]
        for actor in actors:
            if actor.session.setup:
                transcript.append(["setup", exchange.run(actor.connection, actor.session.setup, STEP_LIMIT)])
        _Run(control, actors, spec, turns, transcript).play()
        for actor in actors:
            if actor.session.teardown and not actor.step:
                transcript.append(["teardown", exchange.run(actor.connection, actor.session.teardown, STEP_LIMIT)])
    finally:
        for actor in actors:
            actor.connection.finish()
        if spec.teardown:
            if control.status != pq.ConnStatus.OK:
                control = exchange.connect(dsn)
            _note_errors(transcript, "teardown", exchange.run(control, spec.teardown, STEP_LIMIT))
        control.finish()
    return transcript


def _note_errors(transcript: list[Any], when: str, found: list[Any]) -> None:
    errors = [result for result in found if result[0] in ("error", "lost", "rows")]
    if errors:
        transcript.append([when, errors])


class _Actor:
    """A session of the spec. `step`: the name of the step that it runs, '' if it is free."""

    def __init__(self, dsn: str, session: Session) -> None:
        self.session = session
        self.connection = exchange.connect(f"{dsn} application_name='isolation/{session.name}'")
        self.pid = self.connection.backend_pid
        self.step = ""
        self.results: list[Any] | None = None  # what the step gave, while its blockers still hold its report back
        self.began = 0.0
        self.notices = 0
        self.notices_before = 0
        self.heard: list[Any] = []
        self.connection.notice_handler = self._notice

    def _notice(self, result: Any) -> None:
        self.notices += 1
        severity = result.error_field(pq.DiagnosticField.SEVERITY) or b""
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        self.heard.append(["notice", severity.decode(), message.decode()])

    def notifications(self) -> list[Any]:
        """What has been notified since the last call: ["notify", channel, payload]."""
        found: list[Any] = []
        with contextlib.suppress(Exception):
            self.connection.consume_input()
        while (notify := self.connection.notifies()) is not None:
            found.append(["notify", notify.relname.decode(), notify.extra.decode()])
        heard, self.heard = self.heard, []
        return heard + found


class _Run:
    def __init__(
        self, control: pq.PGconn, actors: list[_Actor], spec: Spec, turns: tuple[Turn, ...], transcript: list[Any]
    ) -> None:
        self._control = control
        self._actors = actors
        self._turns = turns
        self._transcript = transcript
        self._owners = {turn.step: actors[spec.owner(turn.step)] for turn in turns}
        self._waiting: list[Turn] = []  # steps that have been told to wait
        self._pids = "{" + ",".join(str(pid) for pid in [control.backend_pid, *(actor.pid for actor in actors)]) + "}"
        self._end = time.monotonic() + SLOW

    def play(self) -> None:
        for turn in self._turns:
            actor = self._owners[turn.step]
            while actor.step:  # a session does one step at a time: what it waits for has to end first
                before = len(self._waiting)
                self._settle()
                if actor.step and len(self._waiting) == before and not self._pause(actor):
                    return
            self._launch(actor, turn)
            if not self._until_told(actor, turn):
                return
            self._settle()
        while self._waiting:
            actor = self._owners[self._waiting[0].step]
            self._settle()
            if self._waiting and not self._pause(actor):
                return

    def _pause(self, actor: _Actor) -> bool:
        """Waits a moment. False: too long already."""
        now = time.monotonic()
        if now - actor.began > STEP_LIMIT or now > self._end:
            self._transcript.append(["gave up", actor.step])
            return False
        select.select([other.connection.socket for other in self._actors if other.step], [], [], LOOK)
        return True

    def _launch(self, actor: _Actor, turn: Turn) -> None:
        actor.step, actor.results, actor.began = turn.step, None, time.monotonic()
        actor.notices_before = actor.notices
        for other in self._actors:
            other.notices_before = other.notices
        exchange.send(actor.connection, actor.session.steps[turn.step])

    def _until_told(self, actor: _Actor, turn: Turn) -> bool:
        """Until the step has ended, or is found waiting. One that is marked with * is told to wait at once."""
        if any(blocker.step == "*" for blocker in turn.blockers):
            self._tell_waiting(turn)
            return True
        while True:
            if self._ended(actor, turn):
                return True
            if actor.results is not None:
                self._tell_waiting(turn)
                return True
            if self._blocked(actor):
                if self._ended(actor, turn):
                    return True
                self._tell_waiting(turn)
                return True
            if not self._pause(actor):
                return False

    def _tell_waiting(self, turn: Turn) -> None:
        self._transcript.append(["waiting", turn.step])
        self._waiting.append(turn)

    def _blocked(self, actor: _Actor) -> bool:
        sql = f"SELECT pg_catalog.pg_isolation_test_session_is_blocked({actor.pid}, '{self._pids}')"
        found = exchange.run(self._control, sql, STEP_LIMIT)
        return bool(found and found[0][0] == "rows" and found[0][2] == [["t"]])

    def _ended(self, actor: _Actor, turn: Turn) -> bool:
        """Whether the step has ended and may be told; then it is."""
        if actor.results is None:
            if not exchange.ready(actor.connection, LOOK if turn not in self._waiting else 0.0):
                return False
            actor.results = exchange.results(actor.connection, STEP_LIMIT)
        if any(self._holds(blocker.step, blocker.notices) for blocker in turn.blockers):
            return False
        heard = actor.notifications()
        self._transcript.append(["step", turn.step, actor.session.steps[turn.step], actor.results, heard])
        actor.step, actor.results = "", None
        return True

    def _holds(self, step: str, notices: int | None) -> bool:
        if step == "*":
            return False
        other = self._owners.get(step)
        if other is None:
            return False
        if notices is not None:
            return other.notices - other.notices_before < notices
        return other.step == step

    def _settle(self) -> None:
        """Tells which of the waiting steps have ended, until none more has; a moment is given to those that a step has
        just set free."""
        while True:
            told = False
            for turn in list(self._waiting):
                actor = self._owners[turn.step]
                if not self._set_free(actor, turn):
                    continue
                if self._ended(actor, turn):
                    self._waiting.remove(turn)
                    told = True
            if not told:
                return

    def _set_free(self, actor: _Actor, turn: Turn) -> bool:
        """Whether a waiting step has ended or goes on: then its end is waited for, as isolationtester does."""
        if actor.results is not None or exchange.ready(actor.connection, 0):
            return True
        if self._blocked(actor):
            return exchange.ready(actor.connection, 0)
        return exchange.ready(actor.connection, LOOK * 5)


def difference(wanted: list[Any], got: list[Any]) -> str:
    """'' if the transcripts are the same, else where they part."""
    for number, expected in enumerate(wanted):
        if number >= len(got):
            return f"ends before {_entry(expected)}"
        found = got[number]
        if expected == found:
            continue
        if expected[0] == found[0] == "step" and expected[1] == found[1] and expected[4] == found[4]:
            reason = exchange.difference(expected[2], expected[3], found[3])
            if not reason:
                continue
            return f"{expected[1]}: {reason}"
        if expected[0] == found[0] and expected[0] in ("setup", "teardown"):
            reason = exchange.difference("", expected[1], found[1])
            if not reason:
                continue
            return f"{expected[0]}: {reason}"
        return f"{_entry(found)}; expected {_entry(expected)}"
    return "" if len(got) == len(wanted) else f"then {_entry(got[len(wanted)])}"


def _entry(entry: list[Any]) -> str:
    if entry[0] == "step":
        results = ", ".join(exchange.summary(item) for item in entry[3])
        return f"step {entry[1]}: {results} {entry[4] or ''}".rstrip()
    if entry[0] in ("setup", "teardown"):
        return f"{entry[0]}: " + ", ".join(exchange.summary(item) for item in entry[1])
    return " ".join(str(part) for part in entry)
