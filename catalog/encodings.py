"""The client encodings, and PostgreSQL's names for them (PostgreSQL 16 manual, 24.3).

The server's texts are UTF-8. Python's codecs convert other encodings, if they agree with PostgreSQL's tables. They
agree for all characters of the single-byte encodings, EUC_CN, GBK and GB18030. UHC lacks the characters for private
use, and EUC_KR and EUC_JP lack a few dozen that vendors have added; these fail like characters without equivalent.
Encodings with more differences are known by name only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.errors import SqlError, not_supported

_SINGLE = {
    "LATIN1": (8, "iso8859_1"), "LATIN2": (9, "iso8859_2"), "LATIN3": (10, "iso8859_3"), "LATIN4": (11, "iso8859_4"),
    "LATIN5": (12, "iso8859_9"), "LATIN6": (13, "iso8859_10"), "LATIN7": (14, "iso8859_13"),
    "LATIN8": (15, "iso8859_14"), "LATIN9": (16, "iso8859_15"), "LATIN10": (17, "iso8859_16"),
    "WIN1256": (18, "cp1256"), "WIN1258": (19, "cp1258"), "WIN866": (20, "cp866"), "WIN874": (21, "cp874"),
    "KOI8R": (22, "koi8_r"), "WIN1251": (23, "cp1251"), "WIN1252": (24, "cp1252"), "ISO_8859_5": (25, "iso8859_5"),
    "ISO_8859_6": (26, "iso8859_6"), "ISO_8859_7": (27, "iso8859_7"), "ISO_8859_8": (28, "iso8859_8"),
    "WIN1250": (29, "cp1250"), "WIN1253": (30, "cp1253"), "WIN1254": (31, "cp1254"), "WIN1255": (32, "cp1255"),
    "WIN1257": (33, "cp1257"), "KOI8U": (34, "koi8_u"),
}  # fmt: skip
# Number, maximum bytes per character, Python's codec ("" if no codec agrees with PostgreSQL).
_MULTIPLE = {
    "SQL_ASCII": (0, 1, ""), "EUC_JP": (1, 3, "euc_jp"), "EUC_CN": (2, 3, "gb2312"), "EUC_KR": (3, 3, "euc_kr"),
    "EUC_TW": (4, 4, ""), "EUC_JIS_2004": (5, 3, ""), "UTF8": (6, 4, "utf_8"), "MULE_INTERNAL": (7, 4, ""),
    "SJIS": (35, 2, "cp932"), "BIG5": (36, 2, ""), "GBK": (37, 2, "gbk"), "UHC": (38, 2, "cp949"),
    "GB18030": (39, 4, "gb18030"), "JOHAB": (40, 3, ""), "SHIFT_JIS_2004": (41, 2, ""),
}  # fmt: skip
_OTHER_NAMES = {
    "abc": "WIN1258", "alt": "WIN866", "iso88591": "LATIN1", "iso885910": "LATIN6", "iso885913": "LATIN7",
    "iso885914": "LATIN8", "iso885915": "LATIN9", "iso885916": "LATIN10", "iso88592": "LATIN2", "iso88593": "LATIN3",
    "iso88594": "LATIN4", "iso88599": "LATIN5", "koi8": "KOI8R", "mskanji": "SJIS", "shiftjis": "SJIS",
    "tcvn": "WIN1258", "tcvn5712": "WIN1258", "unicode": "UTF8", "vscii": "WIN1258", "win": "WIN1251",
    "win932": "SJIS", "win936": "GBK", "win949": "UHC", "win950": "BIG5", "windows932": "SJIS", "windows936": "GBK",
    "windows949": "UHC", "windows950": "BIG5",
    **{f"windows{name[3:]}": name for name in _SINGLE if name.startswith("WIN")},
}  # fmt: skip
# Characters for which PostgreSQL's EUC_JP follows Windows, and Python's the standard.
_WINDOWS_FORMS = str.maketrans("〜‖−¢£¬", "～∥－￠￡￢")
_STANDARD_FORMS = str.maketrans("～∥－￠￡￢", "〜‖−¢£¬")
_PRIVATE_USE = re.compile("[\x80\ue000-\uf8ff]")
_NOT_IN_EUC_JP = re.compile("[〜‖−¢£¬¥‾]")
_HANGUL_COMPOSED = re.compile("[가-힣]")


@dataclass(frozen=True, slots=True)
class Encoding:
    """A client encoding. `codec` is '' for an encoding that is known but not supported."""

    name: str
    number: int
    width: int
    codec: str
    to_server: Mapping[int, int | str | None] | None = None
    to_client: Mapping[int, int | str | None] | None = None
    refused: re.Pattern[str] | None = field(default=None)  # characters of the codec that the encoding does not have

    @property
    def is_utf8(self) -> bool:
        """Whether texts need no conversion."""
        return self.name in ("UTF8", "SQL_ASCII")

    def decode(self, data: bytes) -> str:
        """Converts bytes of a client to text. Raises 22021 for an invalid byte sequence, 22P05 for a character that
        Unicode does not have."""
        try:
            text = data.decode(self.codec)
        except UnicodeDecodeError as error:
            raise self._undecodable(data, error.start) from None
        if self.to_server is not None:
            text = text.translate(self.to_server)
        elif self.refused is not None and (found := self.refused.search(text)) is not None:
            raise self._undecodable(data, len(text[: found.start()].encode(self.codec)))
        if "\0" in text:
            raise SqlError("22021", f'invalid byte sequence for encoding "{self.name}": 0x00')
        return text

    def _undecodable(self, data: bytes, start: int) -> SqlError:
        lead = data[start]
        count = 1
        if self.width > 1 and self.name != "UTF8" and lead >= 0x80:
            count = 3 if self.name == "EUC_JP" and lead == 0x8F else 2
        found = data[start : start + count]
        complete = len(found) == count and all(byte >= (0x40 if self.width == 2 else 0x80) for byte in found[1:])
        if self.name == "UTF8" or not complete:
            wrong = data[start : start + _utf8_length(lead)] if self.name == "UTF8" else found
            return SqlError("22021", f'invalid byte sequence for encoding "{self.name}": {_show(wrong)}')
        what = f'character with byte sequence {_show(found)} in encoding "{self.name}"'
        return SqlError("22P05", f'{what} has no equivalent in encoding "UTF8"')

    def encode(self, text: str) -> bytes:
        """Converts a text for a client. Raises 22P05 for a character that the encoding does not have."""
        if self.refused is not None and (found := self.refused.search(text)) is not None:
            raise self._missing(found[0])
        if self.to_client is not None:
            text = text.translate(self.to_client)
        try:
            data = text.encode(self.codec)
        except UnicodeEncodeError as error:
            raise self._missing(text[error.start]) from None
        if self.name == "EUC_KR" and (b"\xa4\xd4" in data):
            for char in _HANGUL_COMPOSED.findall(text):
                if len(char.encode(self.codec)) > 2:
                    raise self._missing(char)
        return data

    def encode_for_showing(self, text: str) -> bytes:
        """Converts a message for a client, with question marks for characters that the encoding does not have."""
        try:
            return self.encode(text)
        except SqlError:
            return text.translate(self.to_client or {}).encode(self.codec, "replace")

    def _missing(self, char: str) -> SqlError:
        what = f'character with byte sequence {_show(char.encode())} in encoding "UTF8"'
        return SqlError("22P05", f'{what} has no equivalent in encoding "{self.name}"')


def _show(data: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in data)


def _utf8_length(lead: int) -> int:
    return 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1


def _all() -> list[Encoding]:
    found = [Encoding(name, number, 1, codec) for name, (number, codec) in _SINGLE.items()]
    for name, (number, width, codec) in _MULTIPLE.items():
        if name == "EUC_JP":
            item = Encoding(name, number, width, codec, _WINDOWS_FORMS, _STANDARD_FORMS, _NOT_IN_EUC_JP)
        else:
            item = Encoding(name, number, width, codec, refused=_PRIVATE_USE if name == "SJIS" else None)
        found.append(item)
    return found


ENCODINGS: Mapping[str, Encoding] = {item.name: item for item in _all()}
BY_NUMBER: Mapping[int, Encoding] = {item.number: item for item in ENCODINGS.values()}
_BY_WORD = {re.sub(r"[^a-z0-9]", "", name.lower()): item for name, item in ENCODINGS.items()} | {
    word: ENCODINGS[name] for word, name in _OTHER_NAMES.items()
}


def encoding_named(given: str) -> Encoding | None:
    """pg_char_to_encoding: finds an encoding by name. Only letters and digits count, in any case."""
    return _BY_WORD.get(re.sub(r"[^a-z0-9]", "", given.lower()))


def usable_encoding(given: str) -> Encoding | None:
    """Like `encoding_named`, but raises 0A000 if texts cannot be converted to the encoding."""
    found = encoding_named(given)
    if found is not None and not found.codec and not found.is_utf8:
        not_supported(f"encoding {found.name}")
    return found
