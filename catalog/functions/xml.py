"""xml: values of SQL as XML, the SQL/XML constructors, xpath (PostgreSQL 16 manual, 9.15; xml.c).

XMLELEMENT and others have a syntax of their own in SQL; the parser makes calls of functions with the same names, which
are declared here.

    xmlelement(name, number of attributes, name of the attribute, its value, ..., content, ...)
    xmlforest(name, value, ...)         xmlpi(name, content)        xmlconcat(xml, ...)
    xmlroot(xml, version, standalone)   xmlparse(kind, text)        xmlserialize(kind, xml)
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, implement, implements
from catalog.functions.xml_names import IS_DOCUMENT
from catalog.functions.xml_paths import exists, select
from catalog.memory import room_for
from catalog.types import element_of, lookup, oids
from catalog.types.base import Array, FormatSettings, TypeRef
from catalog.types.xml_text import (
    Declaration,
    check,
    escape,
    escape_attribute,
    is_document,
    is_well_formed,
    print_declaration,
    show,
)

# ---- values ---------------------------------------------------------------------------------------------------------

Write = Callable[[FormatSettings, Any], str]


def value_writer(oid: int) -> Write:
    """map_sql_value_to_xml_value: the function that writes values of a type, escaped. Raises 22008."""
    element = element_of(oid)
    if element:
        write_element = value_writer(element)

        def write_array(settings: FormatSettings, value: Array) -> str:
            shown = (write_element(settings, item) for item in value.elements if item is not None)
            return "".join(f"<element>{text}</element>" for text in shown)

        return write_array
    if oid == oids.XML:
        return lambda settings, value: show(value)
    if oid == oids.BOOL:
        return lambda settings, value: "true" if value else "false"
    if oid == oids.BYTEA:
        return _write_bytes
    if oid in oids.DATED:
        return _time_writer(oid)
    known = lookup(oid)
    return lambda settings, value: escape(known.text_encoder(settings)(value).decode())


def _write_bytes(settings: FormatSettings, value: bytes) -> str:
    if settings.xml_binary == "hex":
        return value.hex().upper()
    text = base64.b64encode(value).decode("ascii")
    return "\r\n".join(text[at : at + 72] for at in range(0, len(text), 72))


def _time_writer(oid: int) -> Write:
    """Dates and times as in XML Schema, which has neither infinity nor years before Christ here."""
    known = lookup(oid)

    def write(settings: FormatSettings, value: object) -> str:
        text = known.text_encoder(replace(settings, date_style="ISO", date_order="YMD"))(value).decode()
        if "infinity" in text:
            what = "date" if oid == oids.DATE else "timestamp"
            detail = f"XML does not support infinite {what} values."
            raise SqlError("22008", f"{what} out of range", detail=detail)
        day, blank, time = text.partition(" ")
        if not blank or oid == oids.DATE:
            return escape(text)
        if oid == oids.TIMESTAMPTZ and len(time) >= 3 and time[-3] in "+-":
            time += ":00"
        return f"{day}T{time}"

    return write


# ---- constructors ---------------------------------------------------------------------------------------------------


def _declare(
    oid: int, name: str, arguments: Sequence[int], result: int, variadic: int = 0, strict: bool = False
) -> None:
    source = f"shoal_{name}"
    declared = Function(oid, name, source, "f", strict, False, "s", tuple(arguments), result, variadic, 0)
    declare(declared, inner=True)  # PostgreSQL has no functions of these names


_declare(9120, "xmlelement", (oids.TEXT, oids.INT4, oids.ANY), oids.XML, oids.ANY)
_declare(9128, "xmlelement", (oids.TEXT, oids.INT4), oids.XML)
_declare(9121, "xmlforest", (oids.ANY,), oids.XML, oids.ANY)
_declare(9122, "xmlpi", (oids.TEXT, oids.TEXT), oids.XML)
_declare(9129, "xmlpi", (oids.TEXT,), oids.XML)
_declare(9123, "xmlconcat", (oids.XML_ARRAY,), oids.XML, oids.XML)
_declare(9124, "xmlroot", (oids.XML, oids.TEXT, oids.INT4), oids.XML)
_declare(9125, "xmlparse", (oids.TEXT, oids.TEXT, oids.BOOL), oids.XML, strict=True)
_declare(9126, "xmlserialize", (oids.TEXT, oids.XML), oids.TEXT, strict=True)
_declare(9127, IS_DOCUMENT, (oids.XML,), oids.BOOL, strict=True)


def _element_maker(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., str]:
    writers = [value_writer(item.oid) for item in types[2:]]
    plain = [lookup(item.oid) if item.oid in oids.TEXTS else None for item in types[2:]]

    def make(call: CallContext, name: str, attributes: int, *values: Any) -> str:
        shown = [f"<{name}"]
        for place in range(1, 2 * attributes, 2):
            value = values[place]
            if value is not None:
                text = str(value) if plain[place] is not None else writers[place](call.format, value)
                shown.append(f' {values[place - 1]}="{escape_attribute(text)}"')
        content = [
            writers[place](call.format, values[place])
            for place in range(2 * attributes, len(values))
            if values[place] is not None
        ]
        room_for(sum(map(len, content)))
        return "".join([*shown, ">", *content, f"</{name}>"]) if content else "".join([*shown, "/>"])

    return make


def _forest_maker(types: Sequence[TypeRef], result: TypeRef) -> Callable[..., str | None]:
    writers = [value_writer(item.oid) for item in types]

    def make(call: CallContext, *values: Any) -> str | None:
        found = [
            f"<{values[place - 1]}>{writers[place](call.format, values[place])}</{values[place - 1]}>"
            for place in range(1, len(values), 2)
            if values[place] is not None
        ]
        room_for(sum(map(len, found)))
        return "".join(found) if found else None

    return make


implement("shoal_xmlelement", python_for_types=_element_maker, needs_context=True)
implement("shoal_xmlforest", python_for_types=_forest_maker, needs_context=True)


@implements("shoal_xmlpi")
def _instruction(name: str, *given: str | None) -> str | None:
    if name.lower() == "xml":
        detail = f'XML processing instruction target name cannot be "{name}".'
        raise SqlError("42601", "invalid XML processing instruction", detail=detail)
    if not given:
        return f"<?{name}?>"
    content = given[0]
    if content is None:
        return None
    if "?>" in content:
        detail = 'XML processing instruction cannot contain "?>".'
        raise SqlError("2200T", "invalid XML processing instruction", detail=detail)
    return f"<?{name} {content.lstrip(' ')}?>"


def _parts(text: str) -> tuple[str | None, int, str]:
    """The version and standalone of a value's declaration, and the rest."""
    found = Declaration(text)
    return found.version, found.standalone, text[found.end :]


def join(values: Sequence[str | None]) -> str | None:
    """xmlconcat: the contents, with a declaration that fits all of them. NULLs are left out."""
    found = [_parts(value) for value in values if value is not None]
    if not found:
        return None
    standalone, version, none = 1, None, False
    for own, alone, _ in found:
        if alone == 0 and standalone == 1:
            standalone = 0
        if alone < 0:
            standalone = -1
        if own is None or (version is not None and own != version):
            none = True
        version = version or own
    shown = "" if none and standalone < 0 else print_declaration(None if none else version, standalone)
    room_for(sum(len(rest) for _, _, rest in found))
    return shown + "".join(rest for _, _, rest in found)


implement("shoal_xmlconcat", lambda values: join(values.elements))
implement("xmlconcat2", lambda left, right: join((left, right)))


def _append(state: list[str], value: str) -> list[str]:
    state.append(value)
    return state


implement("xmlagg(xml)", python_aggregate=(list, _append, join))


@implements("shoal_xmlroot")
def _root(value: str | None, version: str | None, standalone: int | None) -> str | None:
    """`standalone`: 1 yes, 0 no, -1 no value, -2 as before."""
    if value is None or standalone is None:
        return None
    _, before, rest = _parts(value)
    return print_declaration(version, before if standalone == -2 else standalone) + rest


@implements("shoal_xmlparse", traits=(Trait.SLOW,))
def _parse(kind: str, text: str, preserve: bool) -> str:
    return check(text, kind == "document")


@implements("shoal_xmlserialize", traits=(Trait.SLOW,))
def _serialize(kind: str, value: str) -> str:
    if kind == "document" and not is_document(value):
        raise SqlError("2200L", "not an XML document")
    return value


implement(f"shoal_{IS_DOCUMENT}", is_document, traits=(Trait.SLOW,))


@implements("xmlcomment")
def _comment(text: str) -> str:
    if "--" in text or text.endswith("-"):
        raise SqlError("2200S", "invalid XML comment")
    return f"<!--{text}-->"


# ---- reading --------------------------------------------------------------------------------------------------------


@implements("texttoxml", needs_context=True, traits=(Trait.SLOW,))
def _of_text(call: CallContext, text: str) -> str:
    return check(text, call.format.xml_option == "document")


implement("xmltotext", lambda value: value)
implement("xml_is_well_formed_document", lambda text: is_well_formed(text, True), traits=(Trait.SLOW,))
implement("xml_is_well_formed_content", lambda text: is_well_formed(text, False), traits=(Trait.SLOW,))


@implements("xml_is_well_formed", needs_context=True, traits=(Trait.SLOW,))
def _well_formed(call: CallContext, text: str) -> bool:
    return is_well_formed(text, call.format.xml_option == "document")


implement("xpath", select, traits=(Trait.SLOW,))
implement("xpath_exists", exists, traits=(Trait.SLOW,))
implement("xmlexists", exists, traits=(Trait.SLOW,))


@implements("xmlvalidate")
def _validate(*_: object) -> object:
    raise SqlError("0A000", "xmlvalidate is not implemented")
