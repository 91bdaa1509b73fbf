"""The escapes of E'...' and U&'...' (PostgreSQL 16 manual, 4.1.2.2 and 4.1.2.3)."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|''", re.DOTALL)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_RAW_BYTE: Final = 0xDC00  # as in Python's surrogateescape: a byte that is not yet decoded
_AT_ONCE: Final = 50_000
_LONG: Final = 4096
_NOT_PLAIN: Final = re.compile(r"\\[0-7xuU']")
_MAX_CODE_POINT: Final = 0x10FFFF


class EscapeError(Exception):
    """An invalid escape. `index` is its position in the raw text; `length` the number of characters that the error
    message quotes, None if it quotes nothing."""

    def __init__(
        self, message: str, index: int, length: int | None, sqlstate: str = "42601", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.index = index
        self.length = length
        self.sqlstate = sqlstate
        self.hint = hint


def resolve_backslashes(raw: str) -> str:
    """Returns the value of E'raw'. \\ooo and \\xhh are bytes, which together must be UTF-8 (22021 otherwise)."""
    if "\\" not in raw:
        return raw.replace("''", "'")
    if len(raw) > _LONG and (plain := _plain_value(raw)) is not None:
        return plain
    joined: list[str] = []
    pieces: list[str] = []
    position = high = 0
    has_bytes = False
    for found in _ESCAPE.finditer(raw):
        what = found[1]
        start, end = found.span()
        code = _code_of(what, start)
        if high:
            if start > position or code is None or not 0xDC00 <= code <= 0xDFFF:
                length = end - start if start == position and code is not None else 1
                raise EscapeError("invalid Unicode surrogate pair", position, length)
            pieces.append(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
            high = 0
        else:
            pieces.append(raw[position:start])
            if code is None:
                byte = _byte_of(what)
                has_bytes = has_bytes or byte is not None
                pieces.append(_LETTERS.get(what, what or "'") if byte is None else byte)
            elif 0xD800 <= code <= 0xDBFF:
                high = code
            elif 0xDC00 <= code <= 0xDFFF:
                raise EscapeError("invalid Unicode surrogate pair", start, end - start)
            elif code == 0 or code > _MAX_CODE_POINT:
                raise EscapeError("invalid Unicode escape value", start, end - start)
            else:
                pieces.append(chr(code))
        position = end
        if len(pieces) > _AT_ONCE:  # joining and freeing many pieces is one long step of C
            joined.append("".join(pieces))
            pieces.clear()
    if high:
        raise EscapeError("invalid Unicode surrogate pair", position, 1)
    value = "".join((*joined, *pieces, raw[position:]))
    return _check_bytes(value) if has_bytes else value


def _plain_value(raw: str) -> str | None:
    """Returns the value of a long text whose escapes all have one character, by replacing in large pieces; None if
    there are other escapes."""
    parts: list[str] = []
    position, size = 0, len(raw)
    while position < size:
        end = position + _AT_ONCE
        while position < end < size and raw[end - 1] in "\\'":  # does not split an escape
            end -= 1
        if end <= position:
            return None
        stretch = raw[position:end]
        if _NOT_PLAIN.search(stretch):
            return None
        parts.append("\\".join(map(_without_pairs, stretch.split("\\\\"))))
        position = end
    return "".join(parts)


def _without_pairs(text: str) -> str:
    """Returns the same for a text without double backslashes."""
    if "\\" in text:
        for letter, meant in _LETTERS.items():
            text = text.replace("\\" + letter, meant)
        text = text.replace("\\", "")
    return text.replace("''", "'")


def _code_of(what: str | None, start: int) -> int | None:
    """Returns the code point of \\uXXXX or \\UXXXXXXXX; None for other escapes. Raises EscapeError for invalid ones."""
    if what is None or what[0] not in "uU":
        return None
    if len(what) == 1:
        hint = r"Unicode escapes must be \uXXXX or \UXXXXXXXX."
        raise EscapeError("invalid Unicode escape", start, None, "22025", hint)
    return int(what[1:], 16)


def _byte_of(what: str | None) -> str | None:
    if what is None or not (what[0] in "01234567" or (what[0] == "x" and len(what) > 1)):
        return None
    byte = int(what[1:], 16) if what[0] == "x" else int(what, 8) & 0xFF
    return chr(byte) if 0 < byte < 0x80 else chr(_RAW_BYTE + byte)


def _check_bytes(value: str) -> str:
    data = b"".join(
        bytes((ord(ch) - _RAW_BYTE,)) if _RAW_BYTE <= ord(ch) <= _RAW_BYTE + 0xFF else ch.encode("utf-8")
        for ch in value
    )
    start, end = data.find(0), data.find(0) + 1
    if start < 0:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            start, end = error.start, max(error.end, error.start + 1)
    wrong = " ".join(f"0x{byte:02x}" for byte in data[start:end])
    raise EscapeError(f'invalid byte sequence for encoding "UTF8": {wrong}', -1, None, "22021")


def resolve_unicode(raw: str, escape: str) -> str:
    """Returns the value of U&'raw' with this escape character: \\XXXX and \\+XXXXXX, with surrogate pairs joined."""
    if escape not in raw:
        return raw
    mark = re.escape(escape)
    scan = re.compile(rf"{mark}{mark}|{mark}([0-9A-Fa-f]{{4}})|{mark}\+([0-9A-Fa-f]{{6}})|({mark})|(.)", re.DOTALL)
    pieces: list[str] = []
    high = 0
    for found in scan.finditer(raw):
        start = found.start()
        if found[3]:
            hint = r"Unicode escapes must be \XXXX or \+XXXXXX."
            raise EscapeError("invalid Unicode escape", start, None, hint=hint)
        digits = found[1] or found[2]
        code = int(digits, 16) if digits else None
        if high and (code is None or not 0xDC00 <= code <= 0xDFFF):
            raise EscapeError("invalid Unicode surrogate pair", start, None)
        if code is None:
            pieces.append(found[4] or escape)
        elif high:
            pieces.append(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
            high = 0
        elif 0xD800 <= code <= 0xDBFF:
            high = code
        elif 0xDC00 <= code <= 0xDFFF:
            raise EscapeError("invalid Unicode surrogate pair", start, None)
        elif code == 0 or code > _MAX_CODE_POINT:
            raise EscapeError("invalid Unicode escape value", start, None)
        else:
            pieces.append(chr(code))
    if high:
        raise EscapeError("invalid Unicode surrogate pair", len(raw), None)
    return "".join(pieces)
