"""Names of SQL as names of XML (map_sql_identifier_to_xml_name)."""

from __future__ import annotations

import re

IS_DOCUMENT = "?column?"
"""The name of the function behind IS DOCUMENT. A result column has the name of its function, and PostgreSQL gives this
one no name."""
_LETTERS = (
    r"A-Z_a-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_FIRST = re.compile(f"[:{_LETTERS}]")
_NEXT = re.compile(rf"[-.:0-9\u00B7\u0300-\u036F\u203F-\u2040{_LETTERS}]")


_ESCAPED = re.compile("_x([0-9A-Fa-f]{4,8})_")


def sql_name(name: str) -> str:
    """The name that `xml_name` has made a name of XML (map_xml_name_to_sql_identifier)."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def xml_name(name: str, whole: bool = False) -> str:
    """`whole`: a name that nobody has written as one of XML, of which colons and a leading `xml` are escaped too."""
    found = []
    for place, char in enumerate(name):
        if char == ":" and (place == 0 or whole):
            found.append("_x003A_")
        elif char == "_" and name[place + 1 : place + 2] == "x":
            found.append("_x005F_")
        elif whole and place == 0 and name[:3].lower() == "xml":
            found.append(f"_x{ord(char):04X}_")
        elif (_NEXT if place else _FIRST).match(char):
            found.append(char)
        else:
            found.append(f"_x{ord(char):04X}_")
    return "".join(found)
