"""The SQL/JSON path language: parses text to a tree, and prints the tree as PostgreSQL's canonical text.

It follows jsonpath_scan.l, jsonpath_gram.y and jsonpath.c (PostgreSQL 16 manual, 9.16.2). A path is a chain of items;
`next` is the item that is applied to the result of an item:

    strict $.a[*] ? (@.b > 1)      root -> key a -> any_array -> filter(gt(current -> key b, 1))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from json.encoder import encode_basestring
from typing import NoReturn

from catalog.errors import SqlError, not_supported
from catalog.text_caches import remembering
from catalog.types.numeric import format_numeric, parse_numeric

LAST_LEVEL = -1  # of **{last}


@dataclass(frozen=True, slots=True)
class Item:
    """One step. The meaning of `value` depends on the kind:

    key, string, variable: text    numeric: Decimal    bool: bool    datetime: the template or None
    any: (first, last) levels      array: pairs of (from, to or None)      like_regex: (pattern, flags)
    """

    kind: str
    value: object = None
    left: Item | None = None
    right: Item | None = None
    next: Item | None = None


@dataclass(frozen=True, slots=True)
class JsonPath:
    root: Item
    lax: bool


# ---- words ----------------------------------------------------------------------------------------------------------

_SPECIAL = r"?%$.\[\]{}()|&!=<>@#,*:\-+/"
_OTHER = rf"[^{_SPECIAL} \t\n\r\f\\\"]"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\n\r\f]+)|(?P<comment>/\*(?:[^*]|\*(?!/))*\*/)|(?P<open_comment>/\*)
    |(?P<op>&&|\|\||\*\*|<=|==|<>|!=|>=)
    |(?P<variable>\$(?:{_OTHER})+)|(?P<quoted_variable>\$")|(?P<quoted>")
    |(?P<number>(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[Ee][-+]?[0-9]+)?)
    |(?P<special>[{_SPECIAL}])|(?P<name>(?:{_OTHER}|\\)+)""",
    re.VERBOSE | re.DOTALL,
)
_REAL_FAIL = re.compile(r"[Ee][-+]?")
_OTHERS = re.compile(rf"(?:{_OTHER})+")
_ANY_CASE = {
    word: word
    for word in (
        "is", "to", "abs", "lax", "flag", "last", "size", "type", "with", "floor", "double", "exists", "starts",
        "strict", "ceiling", "unknown", "datetime", "keyvalue", "like_regex",
    )
}  # fmt: skip
_LOWER = ("null", "true", "false")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")


@dataclass(frozen=True, slots=True)
class _Word:
    kind: str  # a keyword, an operator, or: name string variable int numeric end
    text: str  # the token's text in the input
    value: str = ""


def _fail(message: str, near: str) -> NoReturn:
    place = f'at or near "{near}" of jsonpath input' if near else "at end of jsonpath input"
    raise SqlError("42601", f"{message} {place}")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def words(self) -> Iterator[_Word]:
        text = self.text
        while self.at < len(text):
            found = _TOKEN.match(text, self.at)
            if found is None:
                _fail("syntax error", text[self.at])
            kind, start = str(found.lastgroup), self.at
            self.at = found.end()
            if kind in ("blank", "comment"):
                continue
            if kind == "open_comment":
                _fail("unexpected end of comment", "")
            if kind in ("op", "special"):
                yield _Word(found[0], found[0])
            elif kind == "variable":
                yield _Word("variable", found[0], found[0][1:])
            elif kind in ("quoted", "quoted_variable"):
                value = self._quote()
                yield _Word("string" if kind == "quoted" else "variable", text[start : self.at], value)
            elif kind == "number":
                yield self._number(start)
            else:
                self.at = start
                yield self._name()
        yield _Word("end", "")

    def _number(self, start: int) -> _Word:
        text = self.text
        written = text[start : self.at]
        failed = _REAL_FAIL.match(text, self.at)
        if failed is not None and "e" not in written.lower():
            self.at = failed.end()
            _fail("trailing junk after numeric literal", text[start : self.at])
        if self.at < len(text) and re.match(_OTHER, text[self.at]):
            _fail("trailing junk after numeric literal", text[start : self.at + 1])
        kind = "int" if written.isdigit() else "numeric"
        return _Word(kind, written, written)

    def _name(self) -> _Word:
        parts, start = [], self.at
        while self.at < len(self.text):
            found = _OTHERS.match(self.text, self.at)
            if found is not None:
                parts.append(found[0])
                self.at = found.end()
            elif self.text[self.at] == "\\":
                self.at += 1
                parts.append(self._escape())
            else:
                break
        name = "".join(parts)
        folded = name.lower()
        written = self.text[start : self.at] if self.at < len(self.text) else ""  # '' at the end of the input
        if folded in _ANY_CASE or name in _LOWER:
            return _Word(folded, written, name)
        return _Word("name", written, name)

    def _quote(self) -> str:
        parts: list[str] = []
        while True:
            if self.at >= len(self.text):
                _fail("unexpected end of quoted string", "")
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return "".join(parts)
            parts.append(self._escape() if char == "\\" else char)

    def _escape(self) -> str:
        """Reads an escape after the backslash."""
        text = self.text
        if self.at >= len(text):
            _fail("unexpected end after backslash", "")
        char = text[self.at]
        if char not in "xu":
            self.at += 1
            return _ESCAPES.get(char, char)
        code = self._code()
        if 0xD800 <= code < 0xDC00:
            if not text.startswith("\\u", self.at):
                raise _surrogate("Unicode low surrogate must follow a high surrogate.")
            self.at += 1
            low = self._code()
            if not 0xDC00 <= low < 0xE000:
                raise _surrogate("Unicode low surrogate must follow a high surrogate.")
            return chr(0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF))
        if 0xDC00 <= code < 0xE000:
            raise _surrogate("Unicode low surrogate must follow a high surrogate.")
        if code == 0:
            raise SqlError(
                "22P05", "unsupported Unicode escape sequence", detail="\\u0000 cannot be converted to text."
            )
        return chr(code)

    def _code(self) -> int:
        found = _HEX.match(self.text, self.at)
        if found is None:
            kind = "unicode" if self.text[self.at] == "u" else "hexadecimal character"
            end = re.compile(r"u\{?[0-9A-Fa-f]*|x[0-9A-Fa-f]?").match(self.text, self.at)
            near = self.text[self.at - 1 : end.end() if end else self.at + 1]
            _fail(f"invalid {kind} sequence", near)
        self.at = found.end()
        return int(found[1] or found[2] or found[3], 16)


def _surrogate(detail: str) -> SqlError:
    return SqlError("22P02", "invalid input syntax for type jsonpath", detail=detail)


# ---- grammar --------------------------------------------------------------------------------------------------------

_COMPARISONS = {"==": "eq", "!=": "ne", "<>": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}
_METHODS = ("abs", "size", "type", "floor", "double", "ceiling", "keyvalue")
_PREDICATES = frozenset(
    ("and", "or", "not", "is_unknown", "eq", "ne", "lt", "gt", "le", "ge", "exists", "starts_with", "like_regex")
)
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}
_FLAGS = "ismxq"


class _Words:
    """The words of a text, which are read when they are asked for: of a wrong text, only those before the error."""

    def __init__(self, text: str) -> None:
        self._read: list[_Word] = []
        self._rest = _Scanner(text).words()

    def __getitem__(self, at: int) -> _Word:
        while at >= len(self._read):
            word = next(self._rest, None)
            if word is None:
                return self._read[-1]  # the end
            self._read.append(word)
        return self._read[at]


class _Parser:
    def __init__(self, text: str) -> None:
        self.words = _Words(text)
        self.at = 0

    @property
    def word(self) -> _Word:
        return self.words[self.at]

    def accept(self, *kinds: str) -> bool:
        if all(self.words[self.at + place].kind == kind for place, kind in enumerate(kinds)):
            self.at += len(kinds)
            return True
        return False

    def expect(self, kind: str) -> _Word:
        word = self.word
        if word.kind != kind:
            self.fail()
        self.at += 1
        return word

    def fail(self) -> NoReturn:
        _fail("syntax error", self.word.text)

    def path(self) -> JsonPath:
        lax = True
        if self.accept("strict"):
            lax = False
        else:
            self.accept("lax")
        root = self.disjunction()
        if self.word.kind != "end":
            self.fail()
        _check_places(root, False, False)
        return JsonPath(root, lax)

    # Predicates and expressions begin alike, so the same functions read both; then the result is checked to be the
    # expected one of both.

    def predicate(self) -> Item:
        return self._must(self.disjunction(), True)

    def expression(self) -> Item:
        return self._must(self.sum(), False)

    def _must(self, item: Item, predicate: bool) -> Item:
        if is_predicate(item) != predicate:
            self.fail()
        return item

    def disjunction(self) -> Item:
        left = self.conjunction()
        while self.word.kind == "||":
            self._must(left, True)
            self.at += 1
            left = Item("or", None, left, self._must(self.conjunction(), True))
        return left

    def conjunction(self) -> Item:
        left = self.negation()
        while self.word.kind == "&&":
            self._must(left, True)
            self.at += 1
            left = Item("and", None, left, self._must(self.negation(), True))
        return left

    def negation(self) -> Item:
        if self.accept("!"):
            if self.word.kind not in ("(", "exists"):
                self.fail()
            return Item("not", None, self._must(self.comparison(), True))
        return self.comparison()

    def comparison(self) -> Item:
        left = self.sum()
        kind = self.word.kind
        if kind in _COMPARISONS:
            self._must(left, False)
            self.at += 1
            return Item(_COMPARISONS[kind], None, left, self.expression())
        if kind == "starts":
            self._must(left, False)
            self.at += 1
            self.expect("with")
            if self.word.kind not in ("string", "variable"):
                self.fail()
            word = self.expect(self.word.kind)
            return Item("starts_with", None, left, Item(word.kind, word.value))
        if kind == "like_regex":
            self._must(left, False)
            self.at += 1
            pattern = self.expect("string").value
            flags = self.expect("string").value if self.accept("flag") else ""
            return like_regex(left, pattern, flags)
        return left

    def sum(self) -> Item:
        left = self.product()
        while self.word.kind in ("+", "-"):
            kind = _ARITHMETIC[self._must_before(left)]
            left = Item(kind, None, left, self._must(self.product(), False))
        return left

    def product(self) -> Item:
        left = self.sign()
        while self.word.kind in ("*", "/", "%"):
            kind = _ARITHMETIC[self._must_before(left)]
            left = Item(kind, None, left, self._must(self.sign(), False))
        return left

    def _must_before(self, left: Item) -> str:
        self._must(left, False)
        kind = self.word.kind
        self.at += 1
        return kind

    def sign(self) -> Item:
        if self.word.kind not in ("+", "-"):
            return self.accessors()
        minus = self.word.kind == "-"
        self.at += 1
        argument = self._must(self.sign(), False)
        if argument.kind == "numeric" and argument.next is None:
            assert isinstance(argument.value, Decimal)
            return replace(argument, value=-argument.value) if minus else argument
        return Item("minus" if minus else "plus", None, argument)

    def accessors(self) -> Item:
        """Reads accessor_expr, or an expression in parentheses."""
        chain: list[Item] = []
        if self.accept("exists"):
            self.expect("(")
            argument = self.expression()
            self.expect(")")
            return Item("exists", None, argument)
        if self.accept("("):
            inner = self.disjunction()
            self.expect(")")
            if self.word.kind == "is":
                self._must(inner, True)
                self.at += 1
                self.expect("unknown")
                return Item("is_unknown", None, inner)
            chain.append(inner)
        else:
            chain.append(self.primary())
        while (step := self.step()) is not None:
            chain.append(step)
        return link_items(chain)

    def primary(self) -> Item:
        word = self.word
        self.at += 1
        if word.kind == "$":
            return Item("root")
        if word.kind == "@":
            return Item("current")
        if word.kind == "last":
            return Item("last")
        if word.kind in ("string", "variable"):
            return Item(word.kind, word.value)
        if word.kind in ("int", "numeric"):
            return Item("numeric", parse_numeric(word.value))
        if word.kind in ("true", "false"):
            return Item("bool", word.kind == "true")
        if word.kind == "null":
            return Item("null")
        self.at -= 1
        self.fail()

    def step(self) -> Item | None:
        """Reads accessor_op; None if there is none."""
        if self.accept("?"):
            self.expect("(")
            condition = self.predicate()
            self.expect(")")
            return Item("filter", None, condition)
        if self.accept("["):
            return self.array()
        if not self.accept("."):
            return None
        word = self.word
        if self.accept("*"):
            return Item("any_key")
        if self.accept("**"):
            return self.levels()
        if word.kind in _METHODS and self.words[self.at + 1].kind == "(":
            self.at += 2
            self.expect(")")
            return Item(word.kind)
        if word.kind == "datetime" and self.words[self.at + 1].kind == "(":
            self.at += 2
            template = self.expect("string").value if self.word.kind == "string" else None
            self.expect(")")
            return Item("datetime", template)
        if word.kind in ("name", "string") or word.kind in _ANY_CASE or word.kind in _LOWER:
            self.at += 1
            return Item("key", word.value)
        self.fail()

    def array(self) -> Item:
        if self.accept("*"):
            self.expect("]")
            return Item("any_array")
        ranges: list[tuple[Item, Item | None]] = []
        while True:
            first = self.expression()
            last = self.expression() if self.accept("to") else None
            ranges.append((first, last))
            if not self.accept(","):
                break
        self.expect("]")
        return Item("array", tuple(ranges))

    def levels(self) -> Item:
        if not self.accept("{"):
            return Item("any", (0, LAST_LEVEL))
        first = last = self.level()
        if self.accept("to"):
            last = self.level()
        self.expect("}")
        return Item("any", (first, last))

    def level(self) -> int:
        if self.accept("last"):
            return LAST_LEVEL
        return int(self.expect("int").value)


def like_regex(left: Item, pattern: str, flags: str) -> Item:
    """Returns a LIKE_REGEX predicate. Raises 42601 for unknown flags, 0A000 for flag x, 2201B for the pattern."""
    for flag in flags:
        if flag not in _FLAGS:
            detail = f'Unrecognized flag character "{flag}" in LIKE_REGEX predicate.'
            raise SqlError("42601", "invalid input syntax for type jsonpath", detail=detail)
    if "x" in flags and "q" not in flags:
        not_supported_flag()
    from catalog.functions.jsonpath_regex import compiled_regex  # types are imported before functions

    compiled_regex(pattern, flags)
    return Item("like_regex", (pattern, "".join(flag for flag in _FLAGS if flag in flags)), left)


def not_supported_flag() -> NoReturn:
    raise SqlError("0A000", 'XQuery "x" flag (expanded regular expressions) is not implemented')


def is_predicate(item: Item) -> bool:
    """Whether the item is a predicate. A predicate with an accessor after it is an expression."""
    return item.kind in _PREDICATES and item.next is None


def link_items(chain: list[Item]) -> Item:
    """Links items to one chain. The chain of an expression in parentheses is kept, and the next item is added at its
    end."""
    following: Item | None = None
    for item in reversed(chain):
        following = _append(item, following)
    assert following is not None
    return following


def _append(item: Item, following: Item | None) -> Item:
    if following is None:
        return item
    if item.next is None:
        return replace(item, next=following)
    return replace(item, next=_append(item.next, following))


def _check_places(item: Item | None, in_filter: bool, in_subscript: bool) -> None:
    """Raises 42601 for @ outside of a filter and LAST outside of subscripts."""
    while item is not None:
        if item.kind == "current" and not in_filter:
            raise SqlError("42601", "@ is not allowed in root expressions")
        if item.kind == "last" and not in_subscript:
            raise SqlError("42601", "LAST is allowed only in array subscripts")
        inside = in_filter or item.kind == "filter"
        _check_places(item.left, inside, in_subscript)
        _check_places(item.right, inside, in_subscript)
        if item.kind == "array":
            assert isinstance(item.value, tuple)
            for first, last in item.value:
                _check_places(first, in_filter, True)
                _check_places(last, in_filter, True)
        item = item.next


@remembering(1024)
def parse_jsonpath(text: str) -> JsonPath:
    """Parses a path. Raises 22P02 for an empty text, 42601 with the position of a syntax error."""
    if not text.strip(" \t\n\r\f"):
        raise SqlError("22P02", f'invalid input syntax for type jsonpath: "{text}"')
    try:
        return _Parser(text).path()
    except RecursionError:
        not_supported("a jsonpath that nests so deeply")


# ---- output ---------------------------------------------------------------------------------------------------------

_SYMBOLS = {
    "and": "&&", "or": "||", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+",
    "sub": "-", "mul": "*", "div": "/", "mod": "%", "starts_with": "starts with",
}  # fmt: skip
_PRIORITIES = {
    "or": 0, "and": 1, "eq": 2, "ne": 2, "lt": 2, "gt": 2, "le": 2, "ge": 2, "starts_with": 2, "add": 3, "sub": 3,
    "mul": 4, "div": 4, "mod": 4, "plus": 5, "minus": 5,
}  # fmt: skip
_PLAIN = {"null": "null", "current": "@", "root": "$", "last": "last", "any_array": "[*]"}


def print_jsonpath(path: JsonPath) -> str:
    """Returns the text of jsonpath_out, which reads back to the same path."""
    return ("" if path.lax else "strict ") + _print(path.root, False, True)


def _priority(item: Item) -> int:
    return _PRIORITIES.get(item.kind, 6)


def _print(item: Item, in_key: bool, brackets: bool) -> str:
    text = _print_one(item, in_key, brackets)
    return text if item.next is None else text + _print(item.next, True, True)


def _print_one(item: Item, in_key: bool, brackets: bool) -> str:
    kind, value, dot = item.kind, item.value, "." if in_key else ""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _SYMBOLS:
        assert item.left is not None and item.right is not None
        own = _priority(item)
        left = _print(item.left, False, _priority(item.left) <= own)
        right = _print(item.right, False, _priority(item.right) <= own)
        return _bracket(f"{left} {_SYMBOLS[kind]} {right}", brackets)
    if kind in ("plus", "minus"):
        assert item.left is not None
        sign = "+" if kind == "plus" else "-"
        return _bracket(sign + _print(item.left, False, _priority(item.left) <= _priority(item)), brackets)
    if kind == "key":
        return dot + encode_basestring(str(value))
    if kind == "string":
        return encode_basestring(str(value))
    if kind == "variable":
        return "$" + encode_basestring(str(value))
    if kind == "numeric":
        assert isinstance(value, Decimal)
        return _bracket(format_numeric(value), item.next is not None)
    if kind == "bool":
        return "true" if value else "false"
    if kind == "any_key":
        return dot + "*"
    if kind == "any":
        return dot + "**" + _levels(value)
    if kind == "array":
        return _print_subscripts(value)
    return _print_with_argument(item, brackets)


def _print_with_argument(item: Item, brackets: bool) -> str:
    kind, value = item.kind, item.value
    inner = "" if item.left is None else _print(item.left, False, False)
    if kind == "like_regex":
        assert item.left is not None and isinstance(value, tuple)
        pattern, flags = value
        text = _print(item.left, False, _priority(item.left) <= _priority(item))
        text += f" like_regex {encode_basestring(pattern)}" + (f' flag "{flags}"' if flags else "")
        return _bracket(text, brackets)
    if kind == "filter":
        return f"?({inner})"
    if kind == "not":
        return f"!({inner})"
    if kind == "is_unknown":
        return f"({inner}) is unknown"
    if kind == "exists":
        return f"exists ({inner})"
    if kind == "datetime":
        return f".datetime({'' if value is None else encode_basestring(str(value))})"
    return f".{kind}()"


def _bracket(text: str, brackets: bool) -> str:
    return f"({text})" if brackets else text


def _levels(value: object) -> str:
    assert isinstance(value, tuple)
    first, last = value
    if (first, last) == (0, LAST_LEVEL):
        return ""
    shown = ["last" if level == LAST_LEVEL else str(level) for level in (first, last)]
    return "{" + (shown[0] if first == last else f"{shown[0]} to {shown[1]}") + "}"


def _print_subscripts(value: object) -> str:
    assert isinstance(value, tuple)
    parts = []
    for first, last in value:
        text = _print(first, False, False)
        parts.append(text if last is None else f"{text} to {_print(last, False, False)}")
    return f"[{','.join(parts)}]"
