"""COPY's options, checked in PostgreSQL's order, with its messages (ProcessCopyOptions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.encodings import Encoding, usable_encoding
from catalog.errors import SqlError

_NOT_DELIMITERS = frozenset("\\.abcdefghijklmnopqrstuvwxyz0123456789")
_TRUE, _FALSE = frozenset(("true", "on", "1")), frozenset(("false", "off", "0"))


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of one COPY. `arrow` is a format of Shoal's own (engine/bulk/copy_arrow.py). Column lists are names,
    '*' or (). `header`: '' for none, 'line', 'match'. `stage` and `part`: the place where the data is kept until a
    later commit."""

    csv: bool = False
    binary: bool = False
    arrow: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    header: str = ""
    quote: str = '"'
    escape: str = '"'
    freeze: bool = False
    force_quote: tuple[str, ...] | str = ()
    force_not_null: tuple[str, ...] = ()
    force_null: tuple[str, ...] = ()
    encoding: Encoding | None = None
    stage: str = ""
    part: str = ""

    @property
    def is_binary(self) -> bool:
        """Whether the data is not text."""
        return self.binary or self.arrow


def read_options(given: Sequence[tuple[str, Any]], is_from: bool) -> CopyOptions:
    """Reads the options. Raises 42601, 22023, 0A000."""
    values: dict[str, Any] = {}
    for name, value in given:
        if name in values:
            raise SqlError("42601", "conflicting or redundant options")
        values[name] = _READERS[name](name, value) if name in _READERS else _fail_unknown(name)
    format_ = values.get("format", "text")
    if format_ in ("binary", "arrow"):
        _check_binary(values, format_.upper())
    csv = format_ == "csv"
    quote = values.get("quote", '"')
    options = CopyOptions(
        csv=csv,
        binary=format_ == "binary",
        arrow=format_ == "arrow",
        delimiter=values.get("delimiter", "," if csv else "\t"),
        null=values.get("null", "" if csv else "\\N"),
        header=values.get("header", ""),
        quote=quote,
        escape=values.get("escape", quote),
        freeze=values.get("freeze", False),
        force_quote=values.get("force_quote", ()),
        force_not_null=values.get("force_not_null", ()),
        force_null=values.get("force_null", ()),
        stage=values.get("stage", ""),
        part=values.get("part", ""),
    )
    _check(options, values, is_from)
    return options


def _fail_unknown(name: str) -> Any:
    raise SqlError("42601", f'option "{name}" not recognized')


def _check_binary(values: dict[str, Any], mode: str) -> None:
    for name in ("delimiter", "null"):
        if name in values:
            raise SqlError("42601", f"cannot specify {name.upper()} in {mode} mode")
    if values.get("header"):
        raise SqlError("0A000", f"cannot specify HEADER in {mode} mode")


def _format(_: str, value: Any) -> str:
    if value not in ("text", "csv", "binary", "arrow"):
        raise SqlError("22023", f'COPY format "{_show(value)}" not recognized')
    return str(value)


def _text(name: str, value: Any) -> str:
    if value is True:
        raise SqlError("42601", f"{name} requires a parameter")
    return str(value)


def _boolean(name: str, value: Any) -> bool:
    text = _show(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise SqlError("42601", f"{name} requires a Boolean value")


def _header(name: str, value: Any) -> str:
    text = _show(value).lower()
    if text == "match":
        return "match"
    if text not in _TRUE | _FALSE:
        raise SqlError("42601", f'{name} requires a Boolean value or "match"')
    return "line" if text in _TRUE else ""


def _columns(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise SqlError("22023", f'argument to option "{name}" must be a list of column names')
    return tuple(map(str, value))


def _quoted_columns(name: str, value: Any) -> tuple[str, ...] | str:
    return "*" if value == "*" else _columns(name, value)


def _encoding(name: str, value: Any) -> Encoding:
    found = usable_encoding(_show(value))
    if found is None:
        raise SqlError("22023", f'argument to option "{name}" must be a valid encoding name')
    return found


def _show(value: Any) -> str:
    return "true" if value is True else str(value)


_READERS: dict[str, Any] = {
    "format": _format,
    "delimiter": _text,
    "null": _text,
    "quote": _text,
    "escape": _text,
    "header": _header,
    "freeze": _boolean,
    "encoding": _encoding,
    "stage": _text,
    "part": _text,
    "force_quote": _quoted_columns,
    "force_not_null": _columns,
    "force_null": _columns,
}


def _check(options: CopyOptions, values: dict[str, Any], is_from: bool) -> None:
    csv = options.csv
    if bool(options.stage) is not bool(options.part):
        raise SqlError("42601", "COPY options stage and part go together")
    if options.stage and not (options.arrow and is_from):
        raise SqlError("0A000", "COPY stage available only using COPY FROM in ARROW mode")
    _one_byte("delimiter", options.delimiter)
    if options.delimiter in "\r\n":
        raise SqlError("22023", "COPY delimiter cannot be newline or carriage return")
    if "\r" in options.null or "\n" in options.null:
        raise SqlError("22023", "COPY null representation cannot use newline or carriage return")
    if not csv and options.delimiter in _NOT_DELIMITERS:
        raise SqlError("22023", f'COPY delimiter cannot be "{options.delimiter}"')
    for name in ("quote", "escape"):
        if not csv and name in values:
            raise SqlError("0A000", f"COPY {name} available only in CSV mode")
        if csv:
            _one_byte(name, getattr(options, name))
        if csv and name == "quote" and options.delimiter == options.quote:
            raise SqlError("22023", "COPY delimiter and quote must be different")
    for name, wanted, direction in (
        ("force_quote", False, "TO"),
        ("force_not_null", True, "FROM"),
        ("force_null", True, "FROM"),
    ):
        if getattr(options, name):
            shown = name.replace("_", " ")
            if not csv:
                raise SqlError("0A000", f"COPY {shown} available only in CSV mode")
            if is_from is not wanted:
                raise SqlError("0A000", f"COPY {shown} only available using COPY {direction}")
    if options.delimiter in options.null:
        raise SqlError("0A000", "COPY delimiter must not appear in the NULL specification")
    if csv and options.quote in options.null:
        raise SqlError("0A000", "CSV quote character must not appear in the NULL specification")
    if options.header == "match" and not is_from:
        raise SqlError("0A000", 'cannot use "match" with HEADER in COPY TO')


def _one_byte(name: str, value: str) -> None:
    if len(value.encode()) != 1:
        raise SqlError("0A000", f"COPY {name} must be a single one-byte character")
