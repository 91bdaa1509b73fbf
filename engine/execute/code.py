"""Source text of a plan's functions, and the objects that they refer to.

A plan is compiled to Python source and `exec`d once: it uses locals instead of attribute chains, and no interpreter of
our own above Python's. `Code` collects lines, returns names that do not clash, and binds constants as the globals of
the new functions (a global that never changes is one specialised, cached load in CPython 3.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from operator import or_
from string import Formatter
from types import CodeType
from typing import Any, NamedTuple

from engine.sql.implication import Provided


class LineUse:
    """The objects that a line of a plan's function uses, and which the function must therefore set up: bits, as plain
    numbers, which cost less than those of an IntFlag while small statements are planned."""

    NOTHING = 0
    GET = 1  # a row or an entry by its key
    SCAN = 2  # the keys of a range
    COUNT = 4  # n, the number of rows
    METER = 8  # the memory account of the statement (measured.py)
    KEPT = 16  # the memory account, only for a row that is stored


class NotOnRowPath(Exception):  # noqa: N818
    """Raised while compiling: the row path cannot do this, so the columnar path is tried."""


class Guard(NamedTuple):
    """A test before a strict call: that a value is not NULL, or a tuple, which only `computes`."""

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


def targets_of(names: Sequence[str]) -> str:
    """Source of the names that a row is unpacked to; a table may have no columns."""
    return f"{', '.join(names)}," if names else "()"


class Code:
    """Functions under construction. Several functions may share one Code, and with it the constants.

    `literals`: this many parameters, from $1 on, are literals of a text: none is NULL, and no test for it is written.
    `brief`: the code will run once, so compiling it costs more than running it: it should be short, and equal to that
    of other statements. `stays`: no other path can run the plan, for any number of rows.
    """

    def __init__(self, literals: int = 0, brief: bool = False, stays: bool = False) -> None:
        self.literals = literals
        self.brief = brief
        self.stays = stays
        self.names: dict[str, object] = {}
        self.has_large = False  # a large constant, which may be in every row
        self.in_plan = False  # the code of a plan, which begins with `metered` if that is used
        self.lasts = False  # there is a call that may take long
        self.calls = 0  # 1: one may take long with long arguments; 2: another call may make these arguments
        self.prologue: list[str] = []  # lines at the beginning of the plan's function
        self.at_end: list[Callable[[], None]] = []  # called when it is finished: breaks reference cycles
        # Made when it is known whether the plan counts memory: names, and then the objects.
        self.when_written: list[tuple[str, Callable[[bool], object]]] = []
        self.small = False  # a brief plan that cannot make large values does not count memory
        self._known: dict[int, str] = {}
        self.large_calls = 0  # number of calls whose results may be large (measured.py)
        # Indexes (OIDs) that the parameters exclude, and the conditions on parameters of each index that the code uses.
        # None: the code is for all parameters (engine/execute/variants.py).
        self.without: frozenset[int] | None = None
        self.provided: dict[int, Provided] = {}
        self.exact = False  # it may stop at a key that storage would cut
        self.asks_context = False  # there is a call that receives the context
        self._lines: list[str] = []
        self._uses: list[int] = []  # of each line
        self._depth = 0
        self._count = 0

    def temporary(self, hint: str = "t") -> str:
        """A local name that nothing else uses."""
        self._count += 1
        return f"{hint}{self._count}"

    def constant(self, value: object, hint: str = "k") -> str:
        """The source of a constant: a literal if Python has a cheap one, otherwise a global name bound to the
        object."""
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
        """Opens a block until `dedent`: later lines are inside it."""
        self.line(header, use)
        self._depth += 1

    def write_limit(self, counter: str, limit: int) -> None:
        """The code after a row was counted: at the limit the statement goes to the columnar path. A plan that no other
        path can run has no limit, and lets other sessions run from time to time."""
        if self.stays:
            self.line(f"if not {counter} & 255: {self.context_call}.session.let_others_run()")
        else:
            self.line(f"if {counter} > {limit}: raise RowPathFull")

    def name_value(self, value: object, hint: str) -> str:
        """A global name bound to the value, even if a literal exists: it may differ between plans that are otherwise
        equal."""
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
        """The number of lines."""
        return len(self._lines)

    def uses_from(self, position: int) -> int:
        """The objects that the lines from `position` on use."""
        return reduce(or_, self._uses[position:], LineUse.NOTHING)

    def leave_out(self, position: int, use: int) -> None:
        """Removes lines of this use."""
        kept = [place for place in range(position, len(self._lines)) if self._uses[place] != use]
        self._lines[position:] = [self._lines[place] for place in kept]
        self._uses[position:] = [self._uses[place] for place in kept]

    def insert(self, position: int, lines: list[str]) -> None:
        """Inserts lines at the top level of a function before the line at `position`."""
        self._lines[position:position] = [f"    {line}" for line in lines]
        self._uses[position:position] = [LineUse.NOTHING] * len(lines)

    def insert_at(self, position: int, depth: int, line: str, use: int) -> None:
        """Inserts a line before the line at `position`."""
        self._lines.insert(position, "    " * depth + line)
        self._uses.insert(position, use)

    @property
    def context_call(self) -> str:
        """The source of the call context, by which a function uses the services of its statement."""
        self.asks_context = True
        return "context.call"

    @property
    def source(self) -> str:
        return "\n".join(self._lines) + "\n"

    def finish(self, name: str, file: str = "") -> Callable[..., Any]:
        """Compiles everything and returns the function of that name, which ends this Code. `file`: the name that
        tracebacks show for it, if it is not that of a plan.

        No cycles remain, of the function and its globals or of compilers: a plan that is used once is freed at once,
        and the cyclic collector has nothing to do (a tenth of the time of planning). Raises NotOnRowPath if the source
        is nested deeper than Python's own parser allows.
        """
        try:
            compiled = _compile(self.source, file or f"<row plan {name}>")
        except (SyntaxError, RecursionError, MemoryError) as error:
            if isinstance(error, SyntaxError) and "too many" not in str(error):
                raise
            raise NotOnRowPath("an expression nested too deep") from error
        exec(compiled, self.names)
        function: Callable[..., Any] = self.names.pop(name)  # type: ignore[assignment]
        self.let_go()
        return function

    def let_go(self) -> None:
        """Breaks reference cycles. Also for callers that abandon the function before it is finished: large garbage in
        cycles, such as a statement of a megabyte, would wait for the collector, which then delays all sessions."""
        for let_go in self.at_end:
            let_go()
        self.at_end.clear()


@lru_cache(4096)
def _compile(source: str, name: str) -> CodeType:
    """Statements of one form have one source, for any tables and constants: compiling takes a third of the time of
    planning a small statement."""
    return compile(source, name, "exec")
