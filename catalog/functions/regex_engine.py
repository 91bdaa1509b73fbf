"""Matches regular expressions by PostgreSQL's rule, which differs from Python's.

PostgreSQL finds the longest of the matches that begin first (or the shortest, if the expression's first quantifier is
not greedy); within the match each part, from left to right, is as long (or as short) as possible. Python's `re` finds
the same *first position*, and for many expressions the same match. If Python's rule (the first alternative that
matches) may find another match, this module matches the tree:

    reach(node, starts)     the set of ends of the node's matches that begin at one of `starts`
    dissect(node, b, e)     matches the node with exactly text[b:e], and sets the groups

PostgreSQL does the same with a DFA for each node, so the time is a low power of the length, never exponential. With
back references, dissect() uses backtracking.

RE2 (in Arrow) also tests whether there is a match, in linear time. It is used if Python's backtracking may take more
than MANY steps. RE2 accepts every expression without look-around, word boundaries, back references and repetitions
above 1000.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from catalog.functions.character_classes import EVERYTHING, Ranges, contains
from catalog.functions.letter_case import ascii_lower, lower
from catalog.functions.regex_syntax import (
    Assertion,
    Characters,
    Choice,
    Expression,
    Group,
    Node,
    Options,
    Reference,
    Repeat,
    Sequence,
    parse,
)
from catalog.patience import long_step

MANY = 100_000  # steps that Python's `re` may take; about 1 ms
LONG = 8192  # characters; a longer pattern takes tens of milliseconds to compile, and some megabytes
REMEMBERED = 64 << 20  # bytes of cached compiled expressions
EACH = 16  # approximate bytes of a compiled expression for each character of its source
LONG_LINEAR = 1 << 18  # characters of an RE2 pattern: RE2 takes 0.1 s for 1 MB, in each call

Span = tuple[int, int]
Match = tuple[Span | None, ...]  # the whole match, then the groups
_EMPTY = Sequence(())


# ---- the preference of an expression ----


def preference(node: Node) -> bool | None:
    """Returns True for longest, False for shortest, None for no preference (PostgreSQL 16 manual, 9.7.3.5)."""
    if isinstance(node, Repeat):
        return preference(node.item) if node.fixed else node.greedy
    if isinstance(node, Choice):
        return True
    if isinstance(node, Group):
        return preference(node.item)
    if isinstance(node, Sequence):
        return next((liked for item in node.items if (liked := preference(item)) is not None), None)
    return None


def _likes_longest(node: Node) -> bool:
    return preference(node) is not False


def _flat(node: Node) -> Iterator[Node]:
    """Yields the parts of unquantified sequences and groups, in order."""
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _flat(item)
    elif isinstance(node, Group):
        yield from _flat(node.item)
    else:
        yield node


def _same_as_python(root: Node) -> bool:
    """Whether Python finds PostgreSQL's match. This is so for a sequence of single characters, quantified or not, with
    the same preference: then the longest match of each part from the left also gives the longest whole match."""
    liked = set()
    for part in _flat(root):
        if isinstance(part, Repeat):
            if not isinstance(part.item, (Characters, Reference)):
                return False
            if not part.fixed:
                liked.add(part.greedy)
        elif isinstance(part, Choice):
            return False
    return len(liked) < 2


def _explosive(node: Node, inside: bool = False) -> bool:
    """Whether an unlimited repetition contains another one: Python may take exponential time to fail."""
    if isinstance(node, Repeat):
        endless = node.maximum is None or node.maximum > 20
        return (inside and endless) or _explosive(node.item, inside or endless)
    if isinstance(node, Sequence):
        return any(_explosive(item, inside) for item in node.items)
    if isinstance(node, Choice):
        return inside or any(_explosive(branch, inside) for branch in node.branches)
    if isinstance(node, (Group, Assertion)):
        return node.item is not None and _explosive(node.item, inside)
    return False


def _endless(node: Node) -> int:
    """Returns the number of unlimited repetitions; each may multiply the steps of a search by the text's length."""
    if isinstance(node, Repeat):
        return (node.maximum is None or node.maximum > 20) + _endless(node.item)
    if isinstance(node, Sequence):
        return sum(map(_endless, node.items))
    if isinstance(node, Choice):
        return sum(map(_endless, node.branches))
    return _endless(node.item) if isinstance(node, Group) else 0


# ---- RE2's form of an expression ----

_LINE_ASSERTIONS = {"start": "\\A", "end": "\\z", "line_start": "(?m:^)", "line_end": "(?m:$)"}


def _linear_source(node: Node) -> str | None:
    """Returns the node as an RE2 pattern; None if RE2 cannot express it."""
    if isinstance(node, Characters):
        if not node.ranges:
            return "[^\\x{0}-\\x{10ffff}]"
        shown = (f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in node.ranges)
        return f"[{''.join(shown)}]"
    if isinstance(node, Sequence | Choice):
        parts = [_linear_source(item) for item in (node.items if isinstance(node, Sequence) else node.branches)]
        joined = ("" if isinstance(node, Sequence) else "|").join(part for part in parts if part is not None)
        return None if None in parts else f"(?:{joined})"
    if isinstance(node, Group):
        return _linear_source(node.item)
    if isinstance(node, Assertion):
        return _LINE_ASSERTIONS.get(node.kind) if node.item is None else None
    if isinstance(node, Reference):
        return None
    inner = _linear_source(node.item)
    if node.maximum is None and node.minimum < 2:
        return None if inner is None else f"(?:{inner}){'+' if node.minimum else '*'}"
    most = "" if node.maximum is None else str(node.maximum)
    return None if inner is None else f"(?:{inner}){{{node.minimum},{most}}}"


# ---- Python's form of an expression ----


@functools.lru_cache(maxsize=256)
def _set_source(ranges: Ranges) -> str:
    if ranges == EVERYTHING:
        return "(?s:.)"
    if not ranges:
        return "(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    shown = (_in_set(low) if low == high else f"{_in_set(low)}-{_in_set(high)}" for low, high in ranges)
    return f"[{''.join(shown)}]"


def _in_set(code: int) -> str:
    """Returns a character of a set: an escape for ASCII. Others are literal, which Python parses in a fifth of the
    time."""
    return chr(code) if code > 127 else f"\\x{code:02x}"


def _assertion_source(node: Assertion) -> str:
    if node.item is not None:
        opening = {"ahead": "(?=", "not_ahead": "(?!", "behind": "(?<=", "not_behind": "(?<!"}[node.kind]
        return f"{opening}{_source(node.item)})"
    of_lines = {"start": "\\A", "end": "\\Z", "line_start": "(?m:^)", "line_end": "(?m:$)"}
    if node.kind in of_lines:
        return of_lines[node.kind]
    word = _set_source(node.words)
    start, end = f"(?<!{word})(?={word})", f"(?<={word})(?!{word})"
    return {
        "word_start": f"(?:{start})",
        "word_end": f"(?:{end})",
        "boundary": f"(?:{start}|{end})",
        "inside": f"(?!{start}|{end})",
    }[node.kind]


def _source(node: Node) -> str:
    if isinstance(node, Characters):
        return _set_source(node.ranges)
    if isinstance(node, Sequence):
        return "".join(map(_source, node.items))
    if isinstance(node, Choice):
        return f"(?:{'|'.join(map(_source, node.branches))})"
    if isinstance(node, Group):
        return f"({_source(node.item)})"
    if isinstance(node, Reference):
        flags = ("ai" if node.ascii_only else "i") if node.ignore_case else ""
        return f"(?{flags}:\\{node.number})"
    if isinstance(node, Assertion):
        return _assertion_source(node)
    maximum = "" if node.maximum is None else str(node.maximum)
    inner = _source(node.item)
    if not isinstance(node.item, (Characters, Group, Reference)):
        inner = f"(?:{inner})"
    return f"{inner}{{{node.minimum},{maximum}}}{'' if node.greedy else '?'}"


# ---- matching the tree ----


class _Text:
    """The matching of one expression with one text."""

    def __init__(self, expression: Expression, text: str) -> None:
        self.expression, self.text, self.length = expression, text, len(text)
        self.spans: list[Span | None] = [None] * (expression.groups + 1)
        self.memory: dict[tuple[int, int], frozenset[int]] = {}
        self.rests: dict[tuple[int, int, int | None], Node] = {}

    # -- reach --

    def reach(self, node: Node, starts: set[int] | frozenset[int]) -> set[int]:
        if isinstance(node, Characters):
            text, length, ranges = self.text, self.length, node.ranges
            return {at + 1 for at in starts if at < length and contains(ranges, ord(text[at]))}
        if isinstance(node, Sequence):
            current = set(starts)
            for item in node.items:
                current = self.reach(item, current)
                if not current:
                    break
            return current
        if isinstance(node, Choice):
            return set().union(*(self.reach(branch, starts) for branch in node.branches))
        if isinstance(node, Repeat):
            return self.reach_repeat(node, starts)
        if isinstance(node, Group):
            return self.reach(node.item, starts)
        if isinstance(node, Reference):
            return self.reach(self.expression.by_number[node.number].item, starts)
        return {at for at in starts if self.holds(node, at)}

    def reach_repeat(self, node: Repeat, starts: set[int] | frozenset[int]) -> set[int]:
        current = set(starts)
        for _ in range(node.minimum):
            current = self.reach(node.item, current)
        found, rounds = set(current), node.minimum
        while current and (node.maximum is None or rounds < node.maximum):
            current = self.reach(node.item, current) - found
            found |= current
            rounds += 1
        return found

    def ends(self, node: Node, start: int) -> frozenset[int]:
        key = (id(node), start)
        found = self.memory.get(key)
        if found is None:
            found = self.memory[key] = frozenset(self.reach(node, {start}))
        return found

    def is_word(self, words: Ranges, at: int) -> bool:
        return 0 <= at < self.length and contains(words, ord(self.text[at]))

    def holds(self, node: Assertion, at: int) -> bool:
        kind = node.kind
        if node.item is not None:
            if kind.endswith("ahead"):
                found = bool(self.reach(node.item, {at}))
            else:
                found = at in self.reach(node.item, set(range(at + 1)))
            return found != kind.startswith("not_")
        if kind in ("start", "line_start"):
            return at == 0 or (kind == "line_start" and self.text[at - 1] == "\n")
        if kind in ("end", "line_end"):
            return at == self.length or (kind == "line_end" and self.text[at] == "\n")
        before, after = self.is_word(node.words, at - 1), self.is_word(node.words, at)
        return {"word_start": after and not before, "word_end": before and not after,
                "boundary": before != after, "inside": before == after}[kind]  # fmt: skip

    # -- dissect --

    def derive(self, node: Node, start: int, maximum: int | None, make: Callable[[], Node]) -> Node:
        """Returns a derived node, and caches it, because `ends` caches by identity."""
        key = (id(node), start, maximum)
        found = self.rests.get(key)
        if found is None:
            found = self.rests[key] = make()
        return found

    def split(self, left: Node, right: Node, begin: int, end: int, longest: bool) -> bool:
        for middle in sorted(self.ends(left, begin), reverse=longest):
            if middle > end or end not in self.ends(right, middle):
                continue
            saved = list(self.spans)
            if self.dissect(left, begin, middle) and self.dissect(right, middle, end):
                return True
            self.spans = saved
        return False

    def dissect(self, node: Node, begin: int, end: int) -> bool:
        if isinstance(node, Group):
            if not self.dissect(node.item, begin, end):
                return False
            self.spans[node.number] = (begin, end)
            return True
        if isinstance(node, Sequence) and len(node.items) > 1:
            rest = self.derive(node, 1, 0, lambda: Sequence(node.items[1:]))
            return self.split(node.items[0], rest, begin, end, _likes_longest(node.items[0]))
        if isinstance(node, Sequence):
            return self.dissect(node.items[0], begin, end) if node.items else begin == end
        if isinstance(node, Choice):
            return any(end in self.ends(item, begin) and self.dissect(item, begin, end) for item in node.branches)
        if isinstance(node, Repeat):
            return self.dissect_repeat(node, begin, end)
        if isinstance(node, Reference):
            span = self.spans[node.number]
            if span is None:
                return False
            wanted, given = self.text[span[0] : span[1]], self.text[begin:end]
            fold = ascii_lower if node.ascii_only else lower
            return fold(wanted) == fold(given) if node.ignore_case else wanted == given
        return True

    def dissect_repeat(self, node: Repeat, begin: int, end: int) -> bool:
        if not self.expression.has_references:
            if isinstance(node.item, Characters):
                return True
            if node.minimum > 0:
                # Only the groups of the last repetition are kept, so the earlier repetitions are one part.
                most = None if node.maximum is None else node.maximum - 1
                least, plain = node.minimum - 1, _without_groups
                before = self.derive(
                    node, least, most, lambda: Repeat(plain(node.item), least, most, node.greedy, node.fixed)
                )
                return self.split(before, node.item, begin, end, _likes_longest(node))
        return self.rounds(node, begin, end)

    def rounds(self, node: Repeat, begin: int, end: int) -> bool:
        """Matches the repetitions one after another, each as long (or short) as possible, exactly up to `end`."""
        at, minimum, maximum = begin, node.minimum, node.maximum
        longest = _likes_longest(node.item)
        if at == end and minimum == 0:
            if longest and end in self.ends(node.item, at):  # an empty repetition still sets its groups
                self.dissect_round(node, at, at)
            return True
        if self.expression.has_references:
            return self.tried_rounds(node, at, end, minimum, maximum, longest)
        while at != end:
            minimum, maximum = max(minimum - 1, 0), None if maximum is None else maximum - 1
            rest = self.remaining(node, minimum, maximum)
            at = self.next_round(node, rest, at, end, longest)
        return True

    def dissect_round(self, node: Repeat, begin: int, end: int) -> bool:
        """Matches one repetition, without the groups of earlier ones."""
        for number in _group_numbers(node.item):
            self.spans[number] = None
        return self.dissect(node.item, begin, end)

    def remaining(self, node: Repeat, minimum: int, maximum: int | None) -> Node:
        if (minimum, maximum) == (node.minimum, node.maximum):
            return node
        return self.derive(node, minimum, maximum, lambda: Repeat(node.item, minimum, maximum, node.greedy, node.fixed))

    def next_round(self, node: Repeat, rest: Node, at: int, end: int, longest: bool) -> int:
        for middle in sorted(self.ends(node.item, at), reverse=longest):
            if at < middle <= end and end in self.ends(rest, middle):
                self.dissect_round(node, at, middle)
                return middle
        raise AssertionError("reach() promised a way that is not there")

    def tried_rounds(self, node: Repeat, at: int, end: int, minimum: int, maximum: int | None, longest: bool) -> bool:
        if at == end and minimum <= 0:
            return True
        if maximum == 0:
            return False
        left = None if maximum is None else maximum - 1
        for middle in sorted(self.ends(node.item, at), reverse=longest):
            if middle > end or (middle == at and minimum <= 0):
                continue
            saved = list(self.spans)
            if self.dissect_round(node, at, middle) and self.tried_rounds(
                node, middle, end, minimum - 1, left, longest
            ):
                return True
            self.spans = saved
        return False

    def match_at(self, begin: int) -> Match | None:
        root = self.expression.root
        for end in sorted(self.ends(root, begin), reverse=_likes_longest(root)):
            self.spans = [None] * (self.expression.groups + 1)
            if self.dissect(root, begin, end):
                self.spans[0] = (begin, end)
                return tuple(self.spans)
        return None


@functools.lru_cache(maxsize=1024)
def _group_numbers(node: Node) -> tuple[int, ...]:
    """Returns the numbers of the groups within a node."""
    if isinstance(node, Group):
        return (node.number, *_group_numbers(node.item))
    if isinstance(node, Sequence):
        return tuple(number for item in node.items for number in _group_numbers(item))
    if isinstance(node, Choice):
        return tuple(number for item in node.branches for number in _group_numbers(item))
    return _group_numbers(node.item) if isinstance(node, Repeat) else ()


def _without_groups(node: Node) -> Node:
    if isinstance(node, Group):
        return _without_groups(node.item)
    if isinstance(node, Sequence):
        return Sequence(tuple(map(_without_groups, node.items)))
    if isinstance(node, Choice):
        return Choice(tuple(map(_without_groups, node.branches)))
    if isinstance(node, Repeat):
        return Repeat(_without_groups(node.item), node.minimum, node.maximum, node.greedy, node.fixed)
    return node


# ---- compiled expressions ----


class Regex:
    """A compiled expression. `test` returns whether there is a match, `search` the first match after a position."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self.groups = expression.groups
        self.python: re.Pattern[str] | None = None
        if expression.has_references or not _explosive(expression.root):
            source = _source(expression.root)
            try:
                self.python = re.compile(source)
            except re.error:  # Python has no lookbehind of variable length
                self.python = None
            _remembered.add(len(source))
        self.direct = self.python is not None and _same_as_python(expression.root)
        self._power = 1 + _endless(expression.root)
        self._linear: str | None = None
        self._linear_known = False

    def linear(self) -> str | None:
        """Returns the RE2 pattern; None if RE2 does not accept the expression."""
        if not self._linear_known:
            source = None if self.expression.has_references else _linear_source(self.expression.root)
            if source is not None:
                source = self._accepted_source(source)
                _remembered.add(len(source or ""))
            self._linear, self._linear_known = source, True
        if self._linear is not None and len(self._linear) > LONG_LINEAR:
            long_step()
        return self._linear

    def _accepted_source(self, source: str) -> str | None:
        if len(source) > LONG_LINEAR:
            long_step()
        try:
            pc.match_substring_regex(pa.scalar(""), source)
        except pa.ArrowInvalid:  # too many repetitions, too large
            return None
        return source

    def test(self, text: str) -> bool:
        """Whether there is a match."""
        if len(text) ** self._power > MANY and (linear := self.linear()) is not None:
            return bool(pc.match_substring_regex(pa.scalar(text, pa.large_string()), linear).as_py())
        if self.python is not None:
            found = self.python.search(text)
            return found is not None and not self._given_up(_Text(self.expression, text), 0, found.start())
        if self.expression.has_references:
            return self.search(_Text(self.expression, text), 0) is not None
        return bool(_Text(self.expression, text).reach(self.expression.root, set(range(len(text) + 1))))

    def matches(self, text: str, start: int = 0) -> Iterator[Match]:
        """Yields every match after `start`. The search for the next match begins at the end of the previous one, or one
        character later after an empty match."""
        if start == 0 and len(text) ** self._power > MANY and self.linear() is not None and not self.test(text):
            return
        subject = _Text(self.expression, text)
        while start <= len(text):
            match = self.search(subject, start)
            if match is None or match[0] is None:
                return
            yield match
            begin, end = match[0]
            start = end + 1 if begin == end else end

    def search(self, subject: _Text, start: int) -> Match | None:
        if self.python is None or (self.expression.has_references and not self.direct):
            places = range(start, subject.length + 1)
            found = next((found for at in places if (found := subject.match_at(at))), None)
            at_end = found is not None and found[0] == (subject.length, subject.length)
            return None if at_end and self._given_up(subject, start, subject.length) else found
        first = self.python.search(subject.text, start)
        if first is None or self._given_up(subject, start, first.start()):
            return None
        if not self.direct:
            return subject.match_at(first.start())
        return tuple(None if span == (-1, -1) else span for span in first.regs)

    def _given_up(self, subject: _Text, start: int, found: int) -> bool:
        """Whether PostgreSQL does not find the match that begins at `found`: after back references have excluded a
        match that ends one character before the text's end, it does not try the text's end (cfindloop)."""
        if not self.expression.has_references or found < subject.length or start == found:
            return False
        root, last = self.expression.root, subject.length - 1
        return any(last in subject.ends(root, at) for at in range(start, subject.length))


class _Remembered:
    """The approximate size of the cached expressions of `compile_regex`, in bytes."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, characters: int) -> None:
        """Counts more characters of sources. Clears the cache first if it is too large."""
        if self.size > REMEMBERED:
            compile_regex.cache_clear()
            re.purge()  # `re` caches 512 expressions
            self.size = 0
        self.size += characters * EACH


_remembered = _Remembered()


@functools.lru_cache(maxsize=512)
def compile_regex(
    pattern: str, ignore_case: bool, newlines: tuple[bool, bool], expanded: bool, literal: bool, ascii_only: bool
) -> Regex:
    """Returns the compiled form of a pattern with these options; at most the last 512 are cached. Raises 2201B."""
    if len(pattern) > LONG:
        long_step()
    return Regex(parse(pattern, Options(ignore_case, expanded, literal, *newlines, False, ascii_only)))


class AsciiPattern(str):
    """A pattern under a collation whose only letters are those of ASCII."""

    __slots__ = ()


def regex(pattern: str, options: Options) -> Regex:
    newlines = (options.dot_excludes_newline, options.anchors_at_lines)
    ascii_only = isinstance(pattern, AsciiPattern)
    return compile_regex(pattern, options.ignore_case, newlines, options.expanded, options.literal, ascii_only)
