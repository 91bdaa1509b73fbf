"""The functions and operators over regular expressions, and SIMILAR TO.

PostgreSQL 16 manual, 9.7.2 and 9.7.3; regexp.c. regex_engine.py finds the matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.regex_engine import AsciiPattern, Match, Regex, regex
from catalog.functions.regex_syntax import Options, set_option
from catalog.functions.registry import implement
from catalog.memory import room_for
from catalog.text_caches import remembering
from catalog.types.base import Array

_PLAIN, _IGNORE_CASE = Options(), Options(ignore_case=True)


@remembering(256)
def flags(text: str) -> Options:
    """Returns the options of a flags argument. Raises 22023 for an unknown letter."""
    options = Options()
    for letter in text:
        if letter == "g":
            options.all_matches = True
        elif not set_option(options, letter):
            raise SqlError("22023", f'invalid regular expression option: "{letter}"')
    return options


def _without_global(text: str, function: str) -> Options:
    options = flags(text)
    if options.all_matches:
        hint = "Use the regexp_matches function instead." if function == "regexp_match()" else None
        raise SqlError("22023", f'{function} does not support the "global" option', hint=hint)
    return options


# ---- operators ----


def matches(text: str, pattern: str) -> bool:
    return regex(pattern, _PLAIN).test(text)


def matches_ignoring_case(text: str, pattern: str) -> bool:
    return regex(pattern, _IGNORE_CASE).test(text)


# ---- search ----


def _captures(expression: Regex, text: str, match: Match) -> Array:
    spans = match[1:] if expression.groups else match[:1]
    return Array.of(tuple(None if span is None else text[span[0] : span[1]] for span in spans))


def regexp_match(text: str, pattern: str, letters: str = "") -> Array | None:
    expression = regex(pattern, _without_global(letters, "regexp_match()"))
    match = next(expression.matches(text), None)
    return None if match is None else _captures(expression, text, match)


def regexp_matches(text: str, pattern: str, letters: str = "") -> list[object]:
    options = flags(letters)
    expression, found = regex(pattern, options), []
    for match in expression.matches(text):
        found.append(_captures(expression, text, match))
        if not options.all_matches:
            break
    return list(found)


def substring(text: str, pattern: str) -> str | None:
    """substring(text from pattern): the match of the first group, or the whole match if there are no groups."""
    expression = regex(pattern, _PLAIN)
    match = next(expression.matches(text), None)
    span = None if match is None else match[1] if expression.groups else match[0]
    return None if span is None else text[span[0] : span[1]]


def _parts(text: str, pattern: str, letters: str, function: str) -> Iterator[str]:
    """Yields the texts between the matches; ignores empty matches at the ends of the text or just after a match."""
    end = previous = 0
    for match in regex(pattern, _without_global(letters, function)).matches(text):
        begin, stop = match[0] or (0, 0)
        if begin < len(text) and stop > previous:
            yield text[end:begin]
            end = stop
        previous = stop
    yield text[end:]


def split_to_array(text: str, pattern: str, letters: str = "") -> Array:
    return Array.of(tuple(_parts(text, pattern, letters, "regexp_split_to_array()")))


def split_to_table(text: str, pattern: str, letters: str = "") -> list[object]:
    return list(_parts(text, pattern, letters, "regexp_split_to_table()"))


# ---- replacement ----

_REPLACEMENT = re.compile(r"\\([0-9&\\])")


@remembering(256)
def _replacement(template: str, groups: int) -> Callable[[str, Match], str]:
    """Returns the function that makes the replacement of a match: \\1 .. \\9 are groups, \\& the whole match, \\\\ a
    backslash."""
    if "\\" not in template:
        return lambda text, match: template
    parts: list[str | int] = []
    end = 0
    for found in _REPLACEMENT.finditer(template):
        parts.append(template[end : found.start()])
        end = found.end()
        if found[1] == "\\":
            parts.append("\\")
        elif found[1] == "0":
            parts.append("\\0")
        else:
            parts.append(0 if found[1] == "&" else int(found[1]))
    parts.append(template[end:])

    def fill(text: str, match: Match) -> str:
        result = []
        for part in parts:
            if isinstance(part, str):
                result.append(part)
            elif part <= groups and (span := match[part]) is not None:
                result.append(text[span[0] : span[1]])
        return "".join(result)

    return fill


def _replace(text: str, expression: Regex, template: str, start: int, number: int) -> str:
    """Replaces match `number`, or all matches if it is 0, from the 0-based position `start` on."""
    fill = _replacement(template, expression.groups)
    result: list[str] = []
    end = size = 0
    for count, match in enumerate(expression.matches(text, start), 1):
        if number and count != number:
            continue
        begin, stop = match[0] or (0, 0)
        made = fill(text, match)
        size += len(made)
        room_for(size)
        result += (text[end:begin], made)
        end = stop
        if number:
            break
    result.append(text[end:])
    return "".join(result)


def replace(text: str, pattern: str, template: str, letters: str = "") -> str:
    if letters[:1].isdigit():
        raise SqlError(
            "22023",
            f'invalid regular expression option: "{letters[0]}"',
            hint="If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer "
            "explicitly.",
        )
    options = flags(letters)
    return _replace(text, regex(pattern, options), template, 0, 0 if options.all_matches else 1)


def _positive(name: str, value: int, least: int = 1) -> int:
    if value < least:
        raise SqlError("22023", f'invalid value for parameter "{name}": {value}')
    return value


def replace_from(
    text: str, pattern: str, template: str, start: int, number: int | None = None, letters: str = ""
) -> str:
    _positive("start", start)
    options = flags(letters)
    if number is None:
        number = 0 if options.all_matches else 1
    _positive("n", number, 0)
    return _replace(text, regex(pattern, options), template, start - 1, number)


# ---- functions for compatibility with Oracle ----


def count(text: str, pattern: str, start: int = 1, letters: str = "") -> int:
    _positive("start", start)
    expression = regex(pattern, _without_global(letters, "regexp_count()"))
    return sum(1 for _ in expression.matches(text, start - 1))


def _nth(expression: Regex, text: str, start: int, number: int) -> Match | None:
    return next((m for index, m in enumerate(expression.matches(text, start - 1), 1) if index == number), None)


def _group(expression: Regex, match: Match | None, group: int) -> tuple[int, int] | None:
    """Returns the span of a group of a match. If the expression has no groups, group 1 is the whole match."""
    if match is None or group > max(expression.groups, 1):
        return None
    return match[group if expression.groups else 0]


def instr(
    text: str, pattern: str, start: int = 1, number: int = 1, at_end: int = 0, letters: str = "", group: int = 0
) -> int:
    _positive("start", start)
    _positive("n", number)
    if at_end not in (0, 1):
        raise SqlError("22023", f'invalid value for parameter "endoption": {at_end}')
    options = _without_global(letters, "regexp_instr()")
    _positive("subexpr", group, 0)
    expression = regex(pattern, options)
    span = _group(expression, _nth(expression, text, start, number), group)
    return 0 if span is None else span[at_end] + 1


def like(text: str, pattern: str, letters: str = "") -> bool:
    return regex(pattern, _without_global(letters, "regexp_like()")).test(text)


def substr(text: str, pattern: str, start: int = 1, number: int = 1, letters: str = "", group: int = 0) -> str | None:
    _positive("start", start)
    _positive("n", number)
    options = _without_global(letters, "regexp_substr()")
    _positive("subexpr", group, 0)
    expression = regex(pattern, options)
    span = _group(expression, _nth(expression, text, start, number), group)
    return None if span is None else text[span[0] : span[1]]


# ---- SIMILAR TO ----


def similar_to_escape(pattern: str, escape: str = "\\") -> str:
    """Converts a SIMILAR TO pattern to a regular expression (similar_escape_internal). Raises 22025, 2200C, 2201B."""
    if len(escape) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    result = ["^(?:"]
    in_class = after_escape = False
    separators = 0
    for char in pattern:
        if after_escape:
            if char == '"' and not in_class:
                # escape-double-quote separates the parts of SUBSTRING(x SIMILAR y ESCAPE z)
                if separators == 0:
                    result.append("){1,1}?(")
                elif separators == 1:
                    result.append("){1,1}(?:")
                else:
                    raise SqlError(
                        "2200C", "SQL regular expression may not contain more than two escape-double-quote separators"
                    )
                separators += 1
            else:
                result.append("\\" + char)
            after_escape = False
        elif char == escape:
            after_escape = True
        elif in_class:
            result.append("\\\\" if char == "\\" else char)
            in_class = char != "]"
        else:
            in_class = char == "["
            result.append(
                {"%": ".*", "_": ".", "(": "(?:", "\\": "\\\\", ".": "\\.", "^": "\\^", "$": "\\$"}.get(char, char)
            )
    result.append(")$")
    return "".join(result)


def similar_escape(pattern: str | None, escape: str | None) -> str | None:
    if pattern is None:
        return None
    return similar_to_escape(pattern, "\\" if escape is None else escape)


ASCII: Final = "ascii_"


def _implement(source: str, function: Callable[..., object]) -> None:
    """Registers the function, and as ascii_`source` its version for a collation whose only letters are those of
    ASCII."""
    implement(source, function, traits=(Trait.REGULAR_EXPRESSION, Trait.SLOW))
    implement(
        ASCII + source,
        lambda text, pattern, *more: function(text, AsciiPattern(pattern), *more),
        traits=(Trait.SLOW,),
    )


def _substring_similar(text: str, pattern: str, escape: str) -> str | None:
    return substring(text, type(pattern)(similar_to_escape(pattern, escape)))


def _register_operators() -> None:
    for name in ("text", "name"):
        _implement(f"{name}regexeq", matches)
        _implement(f"{name}regexne", lambda text, pattern: not matches(text, pattern))
        _implement(f"{name}icregexeq", matches_ignoring_case)
        _implement(f"{name}icregexne", lambda text, pattern: not matches_ignoring_case(text, pattern))


def _register_functions() -> None:
    for sources, function in (
        ("regexp_match regexp_match_no_flags", regexp_match),
        ("regexp_matches regexp_matches_no_flags", regexp_matches),
        ("textregexsubstr", substring),
        ("substring", _substring_similar),
        ("regexp_split_to_array regexp_split_to_array_no_flags", split_to_array),
        ("regexp_split_to_table regexp_split_to_table_no_flags", split_to_table),
        ("textregexreplace textregexreplace_noopt", replace),
        ("textregexreplace_extended textregexreplace_extended_no_flags textregexreplace_extended_no_n", replace_from),
        ("regexp_count regexp_count_no_flags regexp_count_no_start", count),
        ("regexp_instr regexp_instr_no_subexpr regexp_instr_no_flags regexp_instr_no_endoption regexp_instr_no_n "
         "regexp_instr_no_start", instr),
        ("regexp_like regexp_like_no_flags", like),
        ("regexp_substr regexp_substr_no_subexpr regexp_substr_no_flags regexp_substr_no_n regexp_substr_no_start",
         substr),
    ):  # fmt: skip
        for source in sources.split():
            _implement(source, function)
    for source in ("similar_to_escape_1", "similar_to_escape_2"):
        implement(source, similar_to_escape)
    implement("similar_escape", similar_escape)


_register_operators()
_register_functions()
