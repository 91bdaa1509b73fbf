"""Parses PostgreSQL's advanced regular expressions to a tree (PostgreSQL 16 manual, 9.7.3).

    Characters   one character of a set; the set has both cases of letters if the expression ignores case
    Sequence     parts, one after the other
    Choice       alternatives
    Repeat       minimum to maximum times (None: without end), greedy or not
    Group        capturing parentheses
    Reference    \\1: the text of a group
    Assertion    ^ $ \\A \\Z \\m \\M \\y \\Y and lookaround, without length

Basic expressions (option b) and POSIX extended ones (option e) raise 0A000. Syntax errors raise 2201B.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.errors import SqlError, not_supported
from catalog.functions.character_classes import (
    EVERYTHING,
    Ranges,
    both_cases,
    classes,
    complement,
    normalize_ranges,
)

_MAX_REPEAT = 255
# PostgreSQL refuses larger expressions as too complex: a sequence of about 43,000 parts exceeds its stack, and its
# automaton has at most 500,000 states, two of them for an alternative.
MOST_IN_A_ROW = 45_000
MOST_PARTS = 300_000
_NEWLINE: Ranges = ((10, 10),)


@dataclass(frozen=True, eq=False, slots=True)
class Characters:
    ranges: Ranges


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    branches: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Repeat:
    """A repetition. `fixed`: its syntax is {m}, which has no preference, unlike {m,m}."""

    item: Node
    minimum: int
    maximum: int | None
    greedy: bool
    fixed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    number: int
    item: Node


@dataclass(frozen=True, eq=False, slots=True)
class Reference:
    number: int
    ignore_case: bool
    ascii_only: bool = False  # only ASCII letters have two cases


@dataclass(frozen=True, eq=False, slots=True)
class Assertion:
    """kind: start end line_start line_end word_start word_end boundary inside ahead not_ahead behind not_behind.
    `words`: the characters of words."""

    kind: str
    item: Node | None = None
    words: Ranges = ()


Node = Characters | Sequence | Choice | Repeat | Group | Reference | Assertion


@dataclass(slots=True)
class Options:
    ignore_case: bool = False
    expanded: bool = False
    literal: bool = False
    dot_excludes_newline: bool = False  # also [^...]
    anchors_at_lines: bool = False
    all_matches: bool = False  # option g, for the function
    ascii_only: bool = False  # the collation's only letters are those of ASCII


@dataclass(frozen=True, slots=True)
class Expression:
    root: Node
    groups: int
    has_references: bool
    by_number: dict[int, Group] = field(default_factory=dict)


def error(what: str) -> SqlError:
    return SqlError("2201B", f"invalid regular expression: {what}")


def too_complex() -> SqlError:
    return error("regular expression is too complex")


def set_option(options: Options, letter: str) -> bool:
    """Applies one option letter. False for an unknown letter; raises 0A000 for b and e."""
    if letter in "be":
        not_supported(f"regular expression option {letter}")
    if letter in "ic":
        options.ignore_case = letter == "i"
    elif letter in "xt":
        options.expanded = letter == "x"
    elif letter in "nm":
        options.dot_excludes_newline = options.anchors_at_lines = True
    elif letter == "s":
        options.dot_excludes_newline = options.anchors_at_lines = False
    elif letter == "p":
        options.dot_excludes_newline, options.anchors_at_lines = True, False
    elif letter == "w":
        options.dot_excludes_newline, options.anchors_at_lines = False, True
    elif letter == "q":
        options.literal = True
    else:
        return False
    return True


def parse(pattern: str, options: Options) -> Expression:
    """Parses a pattern. Raises 2201B, 0A000."""
    if options.literal:
        return _literal(pattern, options)
    if pattern.startswith("***="):
        return _literal(pattern[4:], options)
    if pattern.startswith("***:"):
        pattern = pattern[4:]
    elif pattern.startswith("***"):
        raise error("quantifier operand invalid")
    return _Parser(pattern, options).run()


def _literal(text: str, options: Options) -> Expression:
    if len(text) > MOST_IN_A_ROW:
        raise too_complex()
    parser = _Parser(text, options)
    return Expression(Sequence(tuple(map(parser.character, map(ord, text)))), 0, False)


_CONTROL = {"a": 7, "b": 8, "B": 92, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CLASSES = {"d": "digit", "s": "space", "w": "word"}
_CONSTRAINTS = {"A": "start", "Z": "end", "m": "word_start", "M": "word_end", "y": "boundary", "Y": "inside"}
_HEXADECIMAL = set("0123456789abcdefABCDEF")
_COLLATING = {"space": " ", "hyphen": "-", "hyphen-minus": "-", "period": ".", "full-stop": ".", "comma": ",",
              "newline": "\n", "tab": "\t", "NUL": "\0", "left-square-bracket": "[", "right-square-bracket": "]",
              "backslash": "\\", "slash": "/", "underscore": "_", "circumflex": "^", "asterisk": "*"}  # fmt: skip


class _Parser:
    def __init__(self, pattern: str, options: Options) -> None:
        self.text, self.options = pattern, options
        self.classes = classes(options.ascii_only)
        self.position = self.groups = self.parts = 0
        self._single: dict[int, Characters] = {}  # by code
        self.closed: dict[int, Group] = {}
        self.references = False
        self.in_lookaround = 0

    def run(self) -> Expression:
        self.embedded_options()
        if self.options.literal:
            return _literal(self.text[self.position :], self.options)
        root = self.choice()
        if self.position < len(self.text):
            raise error("parentheses () not balanced")
        return Expression(root, self.groups, self.references, self.closed)

    def embedded_options(self) -> None:
        if self.text.startswith("(?") and self.text[2:3].isalpha():
            end = self.text.find(")")
            letters = self.text[2:end] if end > 0 else self.text[2:]
            if end < 0 or not all(letter.isalpha() and set_option(self.options, letter) for letter in letters):
                raise error("invalid embedded option")
            self.position = end + 1

    def peek(self) -> str:
        """Returns the next character, '' at the end. Skips comments, and blanks in expanded syntax."""
        while True:
            if self.text.startswith("(?#", self.position):
                end = self.text.find(")", self.position)
                self.position = end + 1 if end >= 0 else len(self.text)
                continue
            char = self.text[self.position : self.position + 1]
            if self.options.expanded and char:
                if char.isspace():
                    self.position += 1
                    continue
                if char == "#":
                    end = self.text.find("\n", self.position)
                    self.position = end if end >= 0 else len(self.text)
                    continue
            return char

    def choice(self) -> Node:
        branches = [self.branch()]
        while self.peek() == "|":
            self.position += 1
            branches.append(self.branch())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def branch(self) -> Node:
        items: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            items.append(self.quantified_atom())
            if len(items) > MOST_IN_A_ROW:
                raise too_complex()
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def quantified_atom(self) -> Node:
        item = self.atom()
        start = self.position
        bounds = self.bounds()
        if bounds is None:
            return item
        written = self.text[start : self.position]
        fixed = written.startswith("{") and "," not in written
        if isinstance(item, Assertion):
            raise error("quantifier operand invalid")
        minimum, maximum = bounds
        greedy = True
        if self.text[self.position : self.position + 1] == "?":
            self.position += 1
            greedy = False
        if self.bounds() is not None:
            raise error("quantifier operand invalid")
        return item if fixed and minimum == 1 else Repeat(item, minimum, maximum, greedy, fixed)

    def bounds(self) -> tuple[int, int | None] | None:
        """Reads a quantifier. None if there is none at this position."""
        char = self.peek()
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) if char else None
        if simple is not None:
            self.position += 1
            return simple
        if char == "{" and self.text[self.position + 1 : self.position + 2].isdigit():
            return self.braces()
        return None

    def braces(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.position)
        low, comma, high = self.text[self.position + 1 : end if end >= 0 else None].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise error("invalid repetition count(s)" if end >= 0 else "braces {} not balanced")
        if end < 0:
            raise error("braces {} not balanced")
        minimum = int(low)
        maximum = minimum if not comma else int(high) if high else None
        if minimum > _MAX_REPEAT or (maximum is not None and (maximum > _MAX_REPEAT or maximum < minimum)):
            raise error("invalid repetition count(s)")
        self.position = end + 1
        return minimum, maximum

    def character(self, code: int) -> Characters:
        """Returns the node of a literal character."""
        known = self._single.get(code)
        if known is None:
            ranges: Ranges = ((code, code),)
            known = self._single[code] = Characters(self.in_both_cases(ranges))
        return known

    def in_both_cases(self, ranges: Ranges) -> Ranges:
        return both_cases(ranges, self.options.ascii_only) if self.options.ignore_case else ranges

    def atom(self) -> Node:
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise too_complex()
        char = self.peek()
        if char in ("*", "+", "?") or (char == "{" and self.text[self.position + 1 : self.position + 2].isdigit()):
            raise error("quantifier operand invalid")
        self.position += 1
        if char == "(":
            return self.parenthesis()
        if char == "[":
            return self.bracket()
        if char == "\\":
            return self.escape()
        if char == ".":
            return Characters(complement(_NEWLINE) if self.options.dot_excludes_newline else EVERYTHING)
        if char == "^":
            return Assertion("line_start" if self.options.anchors_at_lines else "start")
        if char == "$":
            return Assertion("line_end" if self.options.anchors_at_lines else "end")
        return self.character(ord(char))

    def parenthesis(self) -> Node:
        for opening, kind in (("?=", "ahead"), ("?!", "not_ahead"), ("?<=", "behind"), ("?<!", "not_behind")):
            if self.text.startswith(opening, self.position):
                self.position += len(opening)
                self.in_lookaround += 1
                item = self.inside()
                self.in_lookaround -= 1
                return Assertion(kind, item)
        if self.text.startswith("?:", self.position):
            self.position += 2
            return self.inside()
        if self.text.startswith("?", self.position):
            raise error("quantifier operand invalid")
        if self.in_lookaround:
            return self.inside()
        self.groups += 1
        number = self.groups
        group = Group(number, self.inside())
        self.closed[number] = group
        return group

    def inside(self) -> Node:
        item = self.choice()
        if self.peek() != ")":
            raise error("parentheses () not balanced")
        self.position += 1
        return item

    # ---- escapes ----

    def escape(self) -> Node:
        char = self.text[self.position : self.position + 1]
        self.position += 1
        if char in _CONSTRAINTS and char:
            return Assertion(_CONSTRAINTS[char], None, self.classes["word"])
        if char.lower() in _CLASSES and char:
            ranges = self.classes[_CLASSES[char.lower()]]
            return Characters(complement(ranges) if char.isupper() else ranges)
        if char.isdecimal() and char != "0":
            number = self.reference_number(char)
            if number is not None:
                return self.reference(number)
        code = self.escaped_character(char)
        return self.character(code)

    def reference_number(self, first: str) -> int | None:
        """Reads the number of a back reference. A number of several digits is one only if there is such a group;
        otherwise it is an octal character, and the result is None."""
        end = self.position
        while self.text[end : end + 1].isdecimal():
            end += 1
        number = int(first + self.text[self.position : end])
        if end > self.position and number > self.groups:
            return None
        self.position = end
        return number

    def reference(self, number: int) -> Node:
        if number not in self.closed or self.in_lookaround:
            raise error("invalid backreference number")
        self.references = True
        return Reference(number, self.options.ignore_case, self.options.ascii_only)

    def escaped_character(self, char: str) -> int:
        if not char:
            raise error("invalid escape \\ sequence")
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "c":
            self.position += 1
            if self.position > len(self.text):
                raise error("invalid escape \\ sequence")
            return ord(self.text[self.position - 1]) & 31
        if char == "x":
            return self.digits(16, 1, 255)
        if char in "uU":
            return self.digits(16, 4 if char == "u" else 8, 4 if char == "u" else 8)
        if char.isdecimal():
            self.position -= 1
            return self.digits(8, 1, 3)
        if char.isascii() and char.isalnum():
            raise error("invalid escape \\ sequence")
        return ord(char)

    def digits(self, base: int, least: int, most: int) -> int:
        end = self.position
        while end - self.position < most and self.text[end : end + 1] in _HEXADECIMAL and end < len(self.text):
            if base == 8 and self.text[end] not in "01234567":
                break
            end += 1
        if end - self.position < least:
            raise error("invalid escape \\ sequence")
        code = int(self.text[self.position : end], base)
        self.position = end
        if code > 0x10FFFF:
            raise error("invalid escape \\ sequence")
        return code

    # ---- bracket expressions ----

    def bracket(self) -> Node:
        for word, kind in (("[:<:]]", "word_start"), ("[:>:]]", "word_end")):
            if self.text.startswith(word, self.position):
                self.position += len(word)
                return Assertion(kind, None, self.classes["word"])
        negated = self.text.startswith("^", self.position)
        self.position += negated
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.text.startswith("]", self.position):
            self.member(ranges, first)
            first = False
        self.position += 1
        found = self.in_both_cases(normalize_ranges(ranges))
        if negated:
            if self.options.dot_excludes_newline:
                found = normalize_ranges((*found, *_NEWLINE))
            found = complement(found)
        return Characters(found)

    def member(self, ranges: list[tuple[int, int]], first: bool) -> None:
        """Reads one element of a bracket expression: a class, a character or a range."""
        whole = self.bracket_class()
        if whole is not None:
            ranges.extend(whole)
            return
        low = self.bracket_character(first, start=True)
        rest = self.text[self.position : self.position + 2]
        if rest[:1] == "-" and rest != "-]" and len(rest) == 2:
            self.position += 1
            if self.bracket_class() is not None:
                raise error("invalid character range")
            high = self.bracket_character(False, start=False)
            if high < low:
                raise error("invalid character range")
            ranges.append((low, high))
        else:
            ranges.append((low, low))

    def bracket_class(self) -> Ranges | None:
        """Reads a class such as [:alpha:], [=x=] or \\d. None if there is none at this position."""
        text, at = self.text, self.position
        if text.startswith("[:", at):
            end = text.find(":]", at + 2)
            name = text[at + 2 : end] if end >= 0 else ""
            if end < 0:
                raise error("brackets [] not balanced")
            if name not in self.classes:
                raise error("invalid character class")
            self.position = end + 2
            if self.options.ignore_case and name in ("upper", "lower"):
                name = "alpha"
            return self.classes[name]
        if text.startswith("[=", at):
            code = self.collating("=")
            return ((code, code),)
        if text.startswith("\\", at) and text[at + 1 : at + 2].lower() in ("d", "s", "w"):
            self.position = at + 2
            ranges = self.classes[_CLASSES[text[at + 1].lower()]]
            return complement(ranges) if text[at + 1].isupper() else ranges
        return None

    def collating(self, mark: str) -> int:
        end = self.text.find(mark + "]", self.position + 2)
        if end < 0:
            raise error("brackets [] not balanced")
        name = self.text[self.position + 2 : end]
        char = name if len(name) == 1 else _COLLATING.get(name)
        if char is None:
            raise error("invalid collating element")
        self.position = end + 2
        return ord(char)

    def bracket_character(self, first: bool, start: bool) -> int:
        text = self.text
        if self.position >= len(text):
            raise error("brackets [] not balanced")
        if text.startswith("[.", self.position):
            return self.collating(".")
        char = text[self.position]
        self.position += 1
        if char == "\\":
            escaped = text[self.position : self.position + 1]
            self.position += 1
            if escaped in _CONSTRAINTS and escaped:
                raise error("invalid escape \\ sequence")
            return self.escaped_character(escaped)
        if char == "-" and start and not first and not text.startswith("]", self.position):
            raise error("invalid character range")
        return ord(char)
