"""XPath 1.0 over xml values (xpath_internal in xml.c).

PostgreSQL evaluates a path at the document, lxml at its root element. So relative paths get a `/` in front.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.memory import large
from catalog.types.base import Array
from catalog.types.float import format_float8
from catalog.types.xml_text import Declaration, escape, etree, read_document

_TOKENS = re.compile(
    r"\s*(?:(?P<literal>\"[^\"]*\"|'[^']*')|(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<variable>\$[\w.:-]+)"
    r"|(?P<sign>//|::|\.\.|!=|<=|>=|[/.@()\[\],|+=<>*-])|(?P<name>[^\W\d][\w.-]*(?::(?:\*|[^\W\d][\w.-]*))?(?!:))"
    r"|(?P<axis>[^\W\d][\w-]*)(?=\s*::))"
)
_NODE_TYPES = ("comment", "text", "node", "processing-instruction")
_OPERATOR_NAMES = ("and", "or", "mod", "div")
_STEP_GOES_ON = ("/", "//", "::", "@")


@lru_cache(512)
def _anchor(path: str) -> str:
    """The path with every relative location path outside of predicates made absolute."""
    made: list[str] = []
    at, depth, before, begins = 0, 0, "", True
    while at < len(path):
        match = _TOKENS.match(path, at)
        if match is None:
            return path
        start = match.start(match.lastgroup or 0)
        token, kind = path[start : match.end()], match.lastgroup
        operand = begins and not before.endswith(_STEP_GOES_ON)  # an operand may begin here, no operator
        operator = not begins and (token in _OPERATOR_NAMES or token == "*") and before not in _STEP_GOES_ON
        call = kind == "name" and path[match.end() :].lstrip().startswith("(") and token not in _NODE_TYPES
        step = kind in ("name", "axis") or token in (".", "..", "@", "*")
        made.append(path[at:start])
        if depth == 0 and operand and step and not call:
            goes_on = path[match.end() :].lstrip().startswith("/")
            made.append(("" if goes_on else "/") if token == "." else f"/{token}")
        else:
            made.append(token)
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
        begins = operator or (kind == "sign" and token not in (")", "]", ".", "..", "*")) or call
        before, at = token, match.end()
    return "".join(made)


def _namespaces(array: Array | None) -> dict[str, str]:
    """The array of pairs of names and URIs. Raises 22000, 22004."""
    if array is None or not array.elements:
        return {}
    if len(array.dimensions) != 2 or array.dimensions[1] != 2:
        raise SqlError(
            "22000",
            "invalid array for XML namespace mapping",
            detail="The array must be two-dimensional with length of the second axis equal to 2.",
        )
    if None in array.elements:
        raise SqlError("22004", "neither namespace name nor URI may be null")
    texts = [str(item) for item in array.elements]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def evaluate(path: str, text: str, namespaces: Mapping[str, str]) -> Any:
    """The result of a path over a document. Raises 22000, 2200M, XX000."""
    if not path:
        raise SqlError("22000", "empty XPath expression")
    try:
        rest = text[Declaration(text).end :]
        root = read_document(rest)
    except (SyntaxError, ValueError):
        raise SqlError("2200M", "could not parse XML document") from None
    module = etree()
    try:
        known = dict(namespaces)
        found = module.XPath(_anchor(path), namespaces=known or None, smart_strings=False)
    except (module.XPathError, ValueError, TypeError) as error:
        raise SqlError("XX000", "invalid XPath expression", detail=str(error)) from None
    tree = root.getroottree()
    try:
        result = found(tree)
        if result == [] and module.XPath(f"count({_anchor(path)})", namespaces=known or None)(tree):
            return [tree]  # lxml leaves out the document itself
    except module.XPathError as error:
        raise SqlError("XX000", "could not create XPath object", detail=str(error)) from None
    if isinstance(result, list) and "<![CDATA[" in rest and any(isinstance(item, str) for item in result):
        not_supported("XPath over texts of a document with CDATA sections")
    return result


def _show_node(node: Any) -> str:
    """xml_xmlnodetoxmltype."""
    if isinstance(node, str):
        return escape(node)
    if isinstance(node, tuple):  # a namespace node
        return escape(node[1] or "")
    module = etree()
    if isinstance(node, module._ElementTree):
        return str(module.tostring(node, encoding="unicode")) + "\n"
    above = node.getparent()
    if above is not None and above.nsmap and isinstance(node.tag, str):
        node = _without_unused(node, above.nsmap)
    return str(module.tostring(node, encoding="unicode", with_tail=False))


def _without_unused(node: Any, outer: Mapping[str | None, str]) -> Any:
    """A copy of an element without the namespaces around it that it does not use."""
    own = {prefix for item in node.iter("*") for prefix, uri in item.nsmap.items() if outer.get(prefix) != uri}
    found = deepcopy(node)
    etree().cleanup_namespaces(found, keep_ns_prefixes=[prefix for prefix in own if prefix is not None])
    return found


def _values(found: Any) -> list[str]:
    if isinstance(found, bool):
        return ["true" if found else "false"]
    if isinstance(found, float):
        return [format_float8(found)]
    if isinstance(found, str):
        return [escape(found)]
    return [_show_node(node) for node in found]


def select(path: str, text: str, namespaces: Array | None = None) -> Array:
    """xpath()."""
    found = _values(evaluate(path, text, _namespaces(namespaces)))
    for value in found:
        large(value)
    return Array.of(tuple(found))


def exists(path: str, text: str, namespaces: Array | None = None) -> bool:
    """xpath_exists(), XMLEXISTS."""
    found = evaluate(path, text, _namespaces(namespaces))
    return bool(found) if isinstance(found, Sequence) and not isinstance(found, str) else True
