"""A query in the form that the client needs to send it again, also with other forms of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.functions.duckdb_errors import TOO_MANY_DIGITS
from catalog.types import lookup
from engine.columnar.frames import Buffer
from engine.columnar.interface import ColumnarQuery, RowEncoding, VirtualContent
from engine.columnar.literals import literal
from engine.storage.columns import ShapedArray


@dataclass(slots=True)
class Request:
    """The parts of a query."""

    query: ColumnarQuery
    values: Sequence[object]
    parameters: tuple[str, ...]
    reader: object
    encoding: RowEncoding | None
    virtual: VirtualContent | None
    memory: int
    rows: Sequence[Buffer] | None = None  # replace the rows of the only table: pairs in the form of frames.encode_pairs

    def write_parameters(self) -> None:
        """Converts the values to SQL. Raises 0A000 for a value that its DuckDB type cannot hold."""
        wanted = self.query.parameters
        self.parameters = tuple(literal(value, kind) for value, (_, kind) in zip(self.values, wanted, strict=True))

    def turn(self, error: SqlError) -> bool:
        """Changes the query to a form that avoids this error: a form for arrays of any shape, or for numerics of any
        number of digits. False if there is none, because the settings are unknown or values were not computed."""
        query = self.query
        make = {ShapedArray.MESSAGE: query.in_whole, TOO_MANY_DIGITS: query.in_digits}.get(error.message)
        if make is None:
            return False
        whole = make(self.encoding.settings if self.encoding is not None else None)
        given = {source: value for (source, _), value in zip(query.parameters, self.values, strict=True)}
        computed = whole.computed != query.computed[: len(whole.computed)]
        unknown = any(source not in given for source, _ in whole.parameters)
        if computed or unknown or not (whole.settings_free or self.encoding is not None or not query.settings_free):
            return False
        texts = dict(whole.texts)
        for number in dict(query.texts):
            texts.pop(number, None)  # they are text already
        self.query = whole
        self.values = [
            value
            if value is None or source not in texts
            else lookup(texts[source]).carrier().text_encoder()(value).decode()
            for value, source in ((given[source], source) for source, _ in whole.parameters)
        ]
        self.write_parameters()
        return True
