"""Source text of a plan's functions, and the objects that they refer to.

A plan is compiled to Python source and `exec`d once: locals instead of attribute chains, no interpreter of our own
above Python's. `Code` collects lines, hands out names that do not clash, and binds constants as the globals of the
functions made (a global that never changes is one specialised, cached load in CPython 3.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce
from operator import or_
from string import Formatter
from types import CodeType
from typing import Any, NamedTuple


class LineUse:
    """What a line of a plan's function has to do with, and what the function begins with therefore: bits, as plain
    numbers, which cost less than those of an IntFlag while small statements are planned."""

    NOTHING = 0
    GET = 1  # a row or an entry by its key
    SCAN = 2  # those between two keys
    COUNT = 4  # n, of rows
    METER = 8  # the meter of the statement (measured.py)
    KEPT = 16  # the meter too, and only to tell it of a row that is put aside


class NotOnRowPath(Exception):  # noqa: N818
    """Raised while compiling: the row path does not do this, the columnar path is to be tried."""


class Guard(NamedTuple):
    """A test that is passed before a strict call: that a value is not NULL, or a tuple, which only `computes`."""

    source: str
    computes: bool = False

    @property
    def test(self) -> str:
        return self.source if self.computes else f"{self.source} is not None"

    @property
    def negation(self) -> str:
        return f"not {self.source}" if self.computes else f"{self.source} is None"


@lru_cache(4096)
def slot_uses(template: str) -> tuple[int, ...]:
    """How often a template has each of its numbered slots."""
    slots = [int(name) for _, name, _, _ in Formatter().parse(template) if name]
    return tuple(slots.count(number) for number in range(max(slots, default=-1) + 1))


class Code:
    """Functions under construction. Several functions may share one Code, and with it the constants.

    `literals`: so many parameters, from $1 on, are literals of a text: none is NULL, and no test for it is written.
    `brief`: what is written will run once, so compiling it costs more than running it: the less source, and the less of
    it that other statements do not have too, the better.
    """

    def __init__(self, literals: int = 0, brief: bool = False) -> None:
        self.literals = literals
        self.brief = brief
        self.names: dict[str, object] = {}
        self.has_large = False  # a large constant, which may be in every row
        self.in_plan = False  # it is a plan's, which begins with `metered` where it is asked for
        self.lasts = False  # there is a call that may take long
        self.calls = 0  # 1: one may take long with long arguments; 2: and these may be made by another one
        self.prologue: list[str] = []  # lines that the plan's function begins with
        self.at_end: list[Callable[[], None]] = []  # called when it is finished: lets go of what refers to each other
        # What is made once it is known whether the plan minds large values: names, and from that the objects.
        self.when_written: list[tuple[str, Callable[[bool], object]]] = []
        self.small = False  # a brief plan in which nothing large can be made: it does not mind large values
        self._known: dict[int, str] = {}
        self.large_calls = 0  # how many calls have been made whose results may be large (measured.py)
        self.asks_context = False  # there is a call that the context is given to
        self._lines: list[str] = []
        self._uses: list[int] = []  # of each line
        self._depth = 0
        self._count = 0

    def temporary(self, hint: str = "t") -> str:
        """A local name that nothing else uses."""
        self._count += 1
        return f"{hint}{self._count}"

    def constant(self, value: object, hint: str = "k") -> str:
        """The source of a constant: a literal where Python has a cheap one, else a global name bound to the object."""
        if value is None or value is True or value is False:
            return repr(value)
        if type(value) is int and abs(value) < 2**63:
            return str(value) if value >= 0 else f"({value})"
        if type(value) in (str, bytes) and len(value) < 200:  # type: ignore[arg-type]
            return repr(value)
        known = self._known.get(id(value))
        if known is None:
            self._count += 1
            known = f"{hint}_{self._count}"
            self._known[id(value)] = known
            self.names[known] = value  # keeps the object alive, so its id stays its own
        return known

    def line(self, text: str, use: int = LineUse.NOTHING) -> None:
        self._lines.append("    " * self._depth + text)
        self._uses.append(use)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """An indented block under `header` ('if x:')."""
        self.line(header)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def indent(self, header: str, use: int = LineUse.NOTHING) -> None:
        """Opens a block that stays open until `dedent`: what follows goes inside it."""
        self.line(header, use)
        self._depth += 1

    def name_value(self, value: object, hint: str) -> str:
        """A global name bound to the value, also where it could be written out: it may differ from plan to plan that
        are the same otherwise."""
        self._count += 1
        name = f"{hint}_{self._count}"
        self.names[name] = value
        return name

    @property
    def depth(self) -> int:
        return self._depth

    def dedent_to(self, depth: int) -> None:
        self._depth = depth

    @property
    def position(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def uses_from(self, position: int) -> int:
        """What the lines from `position` on have to do with."""
        return reduce(or_, self._uses[position:], LineUse.NOTHING)

    def leave_out(self, position: int, use: int) -> None:
        """Takes lines of this use away."""
        kept = [place for place in range(position, len(self._lines)) if self._uses[place] != use]
        self._lines[position:] = [self._lines[place] for place in kept]
        self._uses[position:] = [self._uses[place] for place in kept]

    def insert(self, position: int, lines: list[str]) -> None:
        """Puts lines at the top level of a function before what is at `position`."""
        self._lines[position:position] = [f"    {line}" for line in lines]
        self._uses[position:position] = [LineUse.NOTHING] * len(lines)

    def insert_at(self, position: int, depth: int, line: str, use: int) -> None:
        """Puts a line before what is at `position`."""
        self._lines.insert(position, "    " * depth + line)
        self._uses.insert(position, use)

    @property
    def context_call(self) -> str:
        """The source of what a function may ask of the statement that calls it."""
        self.asks_context = True
        return "context.call"

    @property
    def source(self) -> str:
        return "\n".join(self._lines) + "\n"

    def finish(self, name: str) -> Callable[..., Any]:
        """Compiles everything written and gives the function of that name, which is the end of this Code.

        No cycles stay behind, of the function and its globals or of compilers: a plan that is used once is freed at
        once, and the cyclic collector has nothing to do (a tenth of the time of planning). Raises NotOnRowPath where
        the source is nested deeper than Python's own parser goes.
        """
        try:
            compiled = _compile(self.source, f"<row plan {name}>")
        except (SyntaxError, RecursionError, MemoryError) as error:
            if isinstance(error, SyntaxError) and "too many" not in str(error):
                raise
            raise NotOnRowPath("an expression nested too deep") from error
        exec(compiled, self.names)
        function: Callable[..., Any] = self.names.pop(name)  # type: ignore[assignment]
        self.let_go()
        return function

    def let_go(self) -> None:
        """What refers to each other does so no longer. For whoever gives the function up before it is finished, too:
        garbage in circles, such as a statement of a megabyte, would wait for the collector, which then holds up
        everybody."""
        for let_go in self.at_end:
            let_go()
        self.at_end.clear()


@lru_cache(4096)
def _compile(source: str, name: str) -> CodeType:
    """Statements of one form have one source, whatever their tables and constants are: compiling takes a third of the
    time of planning a small statement."""
    return compile(source, name, "exec")
