"""Isolation specs (PostgreSQL's src/test/isolation/README, specparse.y): text -> setup, sessions, steps, permutations.

    setup { SQL }  teardown { SQL }                      any number of setups, each a message of its own
    session NAME  setup {...}  step NAME { SQL }  teardown {...}
    permutation STEP STEP(*) STEP(OTHER, OTHER notices 2)

A step's blockers: `*` says that it is to be taken for waiting at once, OTHER that its end is told after OTHER's,
OTHER notices N that it waits for OTHER's notices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(r'\s+|#[^\n]*|\{|"(?:[^"]|"")*"|[A-Za-z_][A-Za-z0-9_$]*|\d+|[(),*]')
_WORDS = ("setup", "teardown", "session", "step", "permutation")


@dataclass(slots=True)
class Session:
    name: str
    setup: str = ""
    teardown: str = ""
    steps: dict[str, str] = field(default_factory=dict)  # SQL by name


@dataclass(frozen=True, slots=True)
class Blocker:
    """step: '*' or a step's name; notices: how many of its notices must have come, or None: it must have ended."""

    step: str
    notices: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    step: str
    blockers: tuple[Blocker, ...] = ()


@dataclass(slots=True)
class Spec:
    setups: list[str] = field(default_factory=list)
    teardown: str = ""
    sessions: list[Session] = field(default_factory=list)
    permutations: list[tuple[Turn, ...]] = field(default_factory=list)

    def owner(self, step: str) -> int:
        """The index of the session that has the step."""
        return next(index for index, session in enumerate(self.sessions) if step in session.steps)


def parse(text: str) -> Spec:
    """Reads a spec. Raises ValueError where it is none. Without permutations, all interleavings are made."""
    spec = Spec()
    reader = _Reader(text)
    session: Session | None = None
    while (word := reader.next()) is not None:
        if word == "setup" and session is None:
            spec.setups.append(reader.block())
        elif word == "setup":
            assert session is not None
            session.setup = reader.block()
        elif word == "teardown" and session is None:
            spec.teardown = reader.block()
        elif word == "teardown":
            assert session is not None
            session.teardown = reader.block()
        elif word == "session":
            session = Session(reader.name())
            spec.sessions.append(session)
        elif word == "step":
            assert session is not None
            name = reader.name()
            session.steps[name] = reader.block()
        elif word == "permutation":
            spec.permutations.append(tuple(reader.turns()))
        else:
            raise ValueError(f"unexpected {word!r}")
    if not spec.permutations:
        spec.permutations = list(_interleavings([[Turn(name) for name in item.steps] for item in spec.sessions]))
    return spec


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def next(self) -> str | None:
        """The next word, '{' included; None at the end."""
        while self._position < len(self._text):
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                raise ValueError(f"unexpected {self._text[self._position : self._position + 20]!r}")
            self._position = match.end()
            if not match[0][0].isspace() and match[0][0] != "#":
                return match[0]
        return None

    def peek(self) -> str | None:
        before = self._position
        word = self.next()
        self._position = before
        return word

    def name(self) -> str:
        word = self.next()
        if word is None:
            raise ValueError("a name is missing")
        return word[1:-1].replace('""', '"') if word.startswith('"') else word

    def block(self) -> str:
        if self.next() != "{":
            raise ValueError("a block is missing")
        end = self._text.index("}", self._position)
        sql = self._text[self._position : end]
        self._position = end + 1
        return sql.strip()

    def turns(self) -> Iterator[Turn]:
        while (word := self.peek()) is not None and word not in _WORDS:
            step = self.name()
            blockers: list[Blocker] = []
            if self.peek() == "(":
                self.next()
                while self.peek() != ")":
                    blocker = self.name()
                    notices = None
                    if self.peek() == "notices":
                        self.next()
                        notices = int(self.name())
                    blockers.append(Blocker(blocker, notices))
                    if self.peek() == ",":
                        self.next()
                self.next()
            yield Turn(step, tuple(blockers))


def _interleavings(piles: list[list[Turn]]) -> Iterator[tuple[Turn, ...]]:
    if not any(piles):
        yield ()
        return
    for index, pile in enumerate(piles):
        if pile:
            rest = [other[1:] if number == index else other for number, other in enumerate(piles)]
            for tail in _interleavings(rest):
                yield (pile[0], *tail)
