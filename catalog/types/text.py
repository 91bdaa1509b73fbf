"""text, varchar, bpchar, name, "char", unknown and cstring: strings, ordered by their UTF-8 bytes (the C collation).

bpchar is padded with blanks to its length, and comparisons ignore these blanks. name has at most 63 bytes. "char" has
one byte, which is printed as backslash and three octal digits if it is not ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from catalog.errors import SqlError
from catalog.identifiers import NAME_BYTES, clip_name
from catalog.types import oids
from catalog.types.base import DEFAULT_FORMAT, Columns, FormatSettings, Layout, SqlType, Storage, TypeRef
from catalog.types.integer import INT4
from catalog.types.texts import decode_utf8, null_byte, text_key

MAX_LENGTH = 10485760  # of a declared char(n) or varchar(n)
_ENCODE = cast(Callable[[object], bytes], str.encode)
_STORAGE = Storage(None, to_storage=_ENCODE, from_storage=cast(Callable[[object], object], bytes.decode))


def _decode_text(text: str) -> object:
    if "\0" in text:
        raise null_byte()
    return text


class Text(SqlType):
    """text, and the base of the other strings. Internal form `str`."""

    columns = Columns(layout=Layout.TEXT, sent_as_held=True, printed=True)
    long = None  # the value is the text

    def __init__(
        self,
        oid: int,
        array_oid: int,
        name: str,
        *,
        sql_name: str | None = None,
        preferred: bool = False,
        length: int = -1,
        category: str = "S",
    ) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = name
        self.sql_name = sql_name or name
        self.category = category
        self.preferred = preferred
        self.length = length
        self.storage = _STORAGE

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        coerce = self.length_coercion(typmod, explicit=False)
        if coerce is None:
            return _decode_text
        return lambda text: coerce(_decode_text(text))

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _ENCODE

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        coerce = self.length_coercion(typmod, explicit=False)
        if coerce is None:
            return decode_utf8
        return lambda data: coerce(decode_utf8(data))

    def binary_encoder(self) -> Callable[[object], bytes]:
        return _ENCODE

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        return text_key

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


class _Sized(Text):
    """A string with a length in characters as modifier, plus 4, the size of a varlena header."""

    modifier_name = ""

    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        decode = INT4.input_function()
        lengths: list[Any] = [decode(argument) for argument in arguments]
        if len(lengths) != 1:
            raise SqlError("22023", "invalid type modifier")
        if lengths[0] < 1:
            raise SqlError("22023", f"length for type {self.modifier_name} must be at least 1")
        if lengths[0] > MAX_LENGTH:
            raise SqlError("22023", f"length for type {self.modifier_name} cannot exceed {MAX_LENGTH}")
        return int(lengths[0]) + 4

    def typmod_out(self, typmod: int) -> str:
        return f"({typmod - 4})" if typmod > 4 else ""

    def _cut(self, value: Any, limit: int, explicit: bool) -> object:
        """Truncates a value that is too long. Raises 22001 if that removes other characters than blanks, except for an
        explicit cast."""
        if not explicit and value[limit:].strip(" "):
            raise SqlError("22001", f"value too long for type {self.sql_name}({limit})")
        return value[:limit]


class Varchar(_Sized):
    """varchar(n)."""

    modifier_name = "varchar"

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if typmod < 4:
            return None
        limit = typmod - 4

        return lambda value: value if len(value) <= limit else self._cut(value, limit, explicit)


class Bpchar(_Sized):
    """char(n): padded with blanks, compared without them."""

    modifier_name = "char"

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[Any], object] | None:
        if typmod < 4:
            return None
        limit = typmod - 4

        return lambda value: value.ljust(limit) if len(value) <= limit else self._cut(value, limit, explicit)

    def sort_key(self) -> Callable[[Any], object]:
        return lambda value: value.rstrip(" ")

    def key_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: text_key(value.rstrip(" "))


def has_blanks(type_: TypeRef) -> bool:
    """Whether the type is char(n), whose values are padded with blanks to one length; columns of stored tables have
    them without the blanks. A bpchar without a length keeps its blanks."""
    return type_.oid == oids.BPCHAR and type_.typmod >= 4


class Name(Text):
    """name: an identifier, silently truncated to 63 bytes on input."""

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return lambda text: clip_name(cast(str, _decode_text(text)))

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            text = decode_utf8(data)
            if len(data) > NAME_BYTES:
                detail = f"Identifier must be less than {NAME_BYTES + 1} characters."
                raise SqlError("42622", "identifier too long", detail=detail)
            return text

        return decode


_OCTAL = re.compile(r"\\[0-3][0-7][0-7]\Z")


def _decode_char(text: str) -> object:
    if _OCTAL.match(text):
        return chr(int(text[1:], 8)).strip("\0")
    return chr(text[:1].encode()[0]) if text else ""


def _encode_char(value: Any) -> bytes:
    if value and ord(value) > 127:
        return b"\\%03o" % ord(value)
    return cast(bytes, value.encode())


class SingleByte(Text):
    """ "char": one byte as a character of code 1 .. 255, or the empty string for the byte 0."""

    columns = Columns(layout=Layout.TEXT)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return _decode_char

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        return _encode_char

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        def decode(data: bytes) -> object:
            if len(data) != 1:
                raise SqlError("08P01", "insufficient data left in message")
            return data.decode("latin-1").strip("\0")

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return lambda value: value.encode("latin-1") or b"\0"


class OutputOnlyText(Text):
    """A type of the system catalogs whose values only the server makes, with PostgreSQL's text."""

    columns = Columns(layout=Layout.TEXT)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        return self._refuse

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        return self._refuse

    def _refuse(self, value: object) -> object:
        raise SqlError("0A000", f"cannot accept a value of type {self.name}")

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        return None


TEXT = Text(oids.TEXT, oids.TEXT_ARRAY, "text", preferred=True)
VARCHAR = Varchar(oids.VARCHAR, oids.VARCHAR_ARRAY, "varchar", sql_name="character varying")
BPCHAR = Bpchar(oids.BPCHAR, oids.BPCHAR_ARRAY, "bpchar", sql_name="character")
NAME = Name(oids.NAME, oids.NAME_ARRAY, "name", length=64)
CHAR = SingleByte(oids.CHAR, oids.CHAR_ARRAY, "char", sql_name='"char"', length=1, category="Z")
UNKNOWN = Text(oids.UNKNOWN, 0, "unknown", length=-2, category="X")
CSTRING = Text(oids.CSTRING, oids.CSTRING_ARRAY, "cstring", length=-2, category="P")
ACLITEM = OutputOnlyText(oids.ACLITEM, oids.ACLITEM_ARRAY, "aclitem", length=12, category="U")
PG_NODE_TREE = OutputOnlyText(oids.PG_NODE_TREE, 0, "pg_node_tree", category="Z")
ANYARRAY = OutputOnlyText(oids.ANYARRAY, 0, "anyarray", category="P")
REFCURSOR = Text(oids.REFCURSOR, oids.REFCURSOR_ARRAY, "refcursor", category="U")
