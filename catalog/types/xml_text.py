"""XML as text: well-formedness, declarations, escapes (xml.c). libxml2 reads it, by lxml.

Entities are checked and not replaced, except for those in attributes, whose growth libxml2 limits, as it does the depth
of elements. External entities, external DTDs and the network are never used. lxml holds the interpreter while it reads,
so long values are read in a process beside (catalog/types/beside.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from catalog.errors import SqlError

_DECLARATION = re.compile(
    r"<\?xml(?:[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?P<version>'[^']*'|\"[^\"]*\"))"
    r"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?P<encoding>'[^']*'|\"[^\"]*\"))?"
    r"(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?P<standalone>'(?:yes|no)'|\"(?:yes|no)\"))?[ \t\r\n]*\?>"
)
_BEFORE_DOCTYPE = re.compile(r"(?:[ \t\r\n]+|<!--.*?-->|<\?.*?\?>)*<!DOCTYPE", re.DOTALL)
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#x0d;"})
_ESCAPES_OF_ATTRIBUTES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_NO_MEMORY = (1, 2)  # codes of libxml2: internal error, which is what lxml says without a message, and no memory
_ROOT = "shoal"  # the element around content, which has no root
_TREE_SIZE = 10  # bytes of a tree for a character, at least as much as was measured


@cache
def etree() -> Any:
    """lxml, which is imported at its first use."""
    from lxml import etree as module

    return module


def escape(text: str) -> str:
    """escape_xml."""
    return text.translate(_ESCAPES)


def escape_attribute(text: str) -> str:
    return text.translate(_ESCAPES_OF_ATTRIBUTES)


class Declaration:
    """An XML declaration: its version, its standalone (1, 0, -1: none), and where it ends."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for a malformed one."""
        self.version: str | None = None
        self.standalone = -1
        self.end = 0
        if not re.match(r"<\?xml[ \t\r\n]", text):
            return
        match = _DECLARATION.match(text)
        if match is None:
            raise ValueError
        self.version = match["version"][1:-1]
        if match["standalone"]:
            self.standalone = int(match["standalone"][1:-1] == "yes")
        self.end = match.end()


def print_declaration(version: str | None, standalone: int) -> str:
    """print_xml_decl: '' for one that says nothing."""
    if (version is None or version == "1.0") and standalone < 0:
        return ""
    shown = f'<?xml version="{version or "1.0"}"'
    if standalone >= 0:
        shown += f' standalone="{"yes" if standalone else "no"}"'
    return shown + "?>"


def show(text: str) -> str:
    """xml_out: the declaration without its encoding."""
    if not text.startswith("<?xml"):
        return text
    try:
        found = Declaration(text)
    except ValueError:
        return text
    shown = print_declaration(found.version, found.standalone)
    rest = text[found.end :]
    return shown + (rest if shown else rest.removeprefix("\n"))


def _read(text: str) -> Any:
    from catalog.memory import room_for

    room_for(len(text) * _TREE_SIZE)
    parser = etree().XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree().fromstring(text.encode(), parser)


def read_document(text: str) -> Any:
    """The root of a document's tree. Raises XMLSyntaxError of lxml, ValueError."""
    return _read(text[Declaration(text).end :].lstrip(" \t\r\n") if text.startswith("<?xml") else text)


def check(text: str, document: bool) -> str:
    """xml_parse: returns the text if it is well-formed. Raises 2200M or 2200N."""
    as_document = document
    sqlstate, what = ("2200M", "document") if document else ("2200N", "content")
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    try:
        rest = text
        if not document:
            try:
                rest = text[Declaration(text).end :]
            except ValueError:
                raise SqlError("2200N", "invalid XML content: invalid XML declaration") from None
            as_document = _BEFORE_DOCTYPE.match(rest) is not None
        if as_document:
            read_document(text)
        elif rest and ("<" in rest or "&" in rest):
            _read(f"<{_ROOT}>{rest}</{_ROOT}>")
    except (ValueError, SyntaxError) as error:
        if getattr(error, "code", 0) in _NO_MEMORY:
            raise SqlError("53200", "out of memory", detail="An XML value is too large.") from None
        line = getattr(error, "lineno", None)
        message = re.sub(r", line \d+, column \d+.*", "", str(getattr(error, "msg", None) or "invalid XML declaration"))
        detail = f"line {line}: {message}" if line else message
        raise SqlError(sqlstate, f"invalid XML {what}", detail=detail) from None
    return text


def is_document(text: str) -> bool:
    """xml_is_document."""
    return is_well_formed(text, True)


def is_well_formed(text: str, document: bool) -> bool:
    try:
        check(text, document)
    except SqlError as error:
        if error.sqlstate not in ("2200M", "2200N"):
            raise
        return False
    return True
