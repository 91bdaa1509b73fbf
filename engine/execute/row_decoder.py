"""Stored rows to columns: the lines of a plan that decode a row into locals."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from catalog.schema import Table
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.storage.rows import codec_of

BRIEF_COLUMNS = 32  # columns of a table whose rows are decoded whole if that makes shorter source


def write_decoding(
    code: Code, table: Table, relation: int, needed: Sequence[int], value: str, columns: dict[tuple[int, int], Value]
) -> None:
    """Decodes the needed columns (attnums; 0 the whole row) of a stored row into locals of their own."""
    if not needed:
        return
    codec = codec_of(table)
    decode = code.constant(codec.decode, "decode")
    positions = {column.number: position for position, column in enumerate(table.columns)}
    not_null = {column.number for column in table.columns if column.not_null} | set(table.key_columns)
    if list(needed) == [column.number for column in table.columns]:
        names = [code.temporary("c") for _ in needed]
        code.line(f"{', '.join(names)}, = {decode}({value})")
    elif len(needed) == 1 and needed[0] > 0:
        names = [code.temporary("c")]
        code.line(f"{names[0]} = {code.constant(codec.decode_column(needed[0]), 'column')}({value})")
    elif needed[0] > 0 and 2 * len(needed) >= len(table.columns):
        names = [code.temporary("c") for _ in needed]
        places = ["_"] * len(table.columns)
        for number, name in zip(needed, names, strict=True):
            places[positions[number]] = name
        code.line(f"{', '.join(places)}, = {decode}({value})")
    else:
        row = code.temporary("row")
        code.line(f"{row} = {decode}({value})")
        names = [row if number == 0 else code.temporary("c") for number in needed]
        for number, name in zip(needed, names, strict=True):
            if number > 0:
                code.line(f"{name} = {row}[{positions[number]}]")
    for number, name in zip(needed, names, strict=True):
        if number < 0:
            raise NotOnRowPath("a system column")
        columns[relation, number] = Value(name, nullable=number not in not_null and number != 0, atom=True)


def write_brief_decoding(
    code: Code,
    table: Table,
    relation: int,
    needed: Sequence[int],
    named: Sequence[int],
    value: str,
    columns: dict[tuple[int, int], Value],
) -> None:
    """Decodes a stored row in a plan that runs once: the row as a whole, and locals for the `named` columns, in the
    order of their first use. So statements that differ only in their columns have one source."""
    row = code.temporary("row")
    code.line(f"{row} = {code.constant(codec_of(table).decode, 'decode')}({value})")
    positions = {column.number: position for position, column in enumerate(table.columns)}
    names = {number: code.temporary("c") for number in named if number in positions}
    if names:
        pick = code.name_value(itemgetter(*(positions[number] for number in names)), "pick")
        code.line(f"{', '.join(names.values())}{',' if len(names) > 1 else ''} = {pick}({row})")
    for number in needed:
        position = positions[number]
        nullable = not (table.columns[position].not_null or number in table.key_columns)
        source = names.get(number, f"{row}[{position}]")
        columns[relation, number] = Value(source, nullable, atom=True, place=(row, len(table.columns), position))
