"""What a type is: its name and OIDs, its text and binary forms, its place in a row, a key, Arrow and DuckDB.

One type, one file (`catalog/types/<type>.py`), each registering its `SqlType` in `catalog.types`. A value travels
through the engine in one *internal form*, chosen so that rows and keys encode by `struct` and NumPy:

    bool                      bool
    int2 int4 int8 oid reg*   int
    float4 float8             float (float4 already rounded to single precision)
    numeric                   decimal.Decimal; its exponent is the display scale (1.10 keeps two digits); NaN, +-inf
    text varchar bpchar name  str; bpchar is padded with blanks to its length, as PostgreSQL stores it
    "char" unknown json       str
    jsonb                     str, PostgreSQL's own jsonb output text (keys sorted by length then bytes, ", " and ": ")
    bytea                     bytes
    uuid                      bytes, 16 of them
    date                      int, days since 2000-01-01; -2**31 = -infinity, 2**31-1 = infinity
    time                      int, microseconds since midnight (0 .. 86_400_000_000)
    timetz                    tuple (microseconds, zone): zone in seconds west of UTC, as PostgreSQL keeps it
    timestamp timestamptz     int, microseconds since 2000-01-01 00:00 (UTC for tz); -2**63, 2**63-1 = infinities
    interval                  Interval(months, days, microseconds)
    T[]                       Array(elements, dimensions, lower_bounds)
    ranges, multiranges       Range (catalog/types/range.py), a tuple of them
    record                    tuple
    SQL NULL                  None, everywhere
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, cast

from catalog.errors import SqlError
from catalog.types import long_values


class Interval(NamedTuple):
    """An interval as PostgreSQL keeps it: three parts that do not carry into each other."""

    months: int
    days: int
    microseconds: int


class Array(NamedTuple):
    """An array of any dimension: elements flat in row-major order. The empty array has no dimensions."""

    elements: tuple[object, ...]
    dimensions: tuple[int, ...]
    lower_bounds: tuple[int, ...]

    @classmethod
    def of(cls, elements: tuple[object, ...]) -> Array:
        """A one-dimensional array that starts at index 1."""
        return cls(elements, (len(elements),), (1,)) if elements else EMPTY_ARRAY


EMPTY_ARRAY = Array((), (), ())


class StoredArray(Array):
    """An array of many elements that a thread has read, with what is stored of it: who stores it need not make that,
    which takes a second for a million elements. `stored_as`: the element type of that form, as the form names it."""

    stored: bytes = b""
    stored_as: int = 0


class Parts(Sequence[Any]):
    """What a long value consists of, where what is stored of it is known: it becomes a tuple where somebody looks."""

    __slots__ = ("_load", "_made", "stored", "stored_as")

    def __init__(
        self, stored: bytes, stored_as: int, load: Callable[[bytes], tuple[Any, ...]], made: Any = None
    ) -> None:
        self.stored = stored
        self.stored_as = stored_as  # the type in whose form that is
        self._load = load
        self._made: tuple[Any, ...] | None = made

    @property
    def items(self) -> tuple[Any, ...]:
        if self._made is None:
            self._made = self._load(self.stored)
        return self._made

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Parts) and self.stored_as == other.stored_as and self.stored == other.stored:
            return True
        return bool(self.items == _items(other))

    def __hash__(self) -> int:
        return hash(self.items)

    def __lt__(self, other: Any) -> bool:
        return bool(self.items < _items(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.items <= _items(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.items > _items(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.items >= _items(other))

    def __add__(self, other: Any) -> tuple[Any, ...]:
        return self.items + tuple(other)

    def __radd__(self, other: Any) -> tuple[Any, ...]:
        return tuple(other) + self.items


def _items(value: Any) -> Any:
    return value.items if isinstance(value, Parts) else value


def is_stored(value: object) -> bool:
    """Whether what is stored of a value comes with it: it goes into its row as it is, not through columns."""
    return bool(getattr(value, "stored", b""))


class Integers(Sequence[object]):
    """The elements of an array of many integers, in a NumPy column. They become objects where somebody looks at them:
    100,000 take some milliseconds, and as long again when they go."""

    __slots__ = ("_made", "column")

    def __init__(self, column: Any) -> None:
        """`column`: numpy.ndarray, int64."""
        self.column = column
        self._made: tuple[object, ...] | None = None

    @property
    def _items(self) -> tuple[object, ...]:
        if self._made is None:
            self._made = tuple(self.column.tolist())
        return self._made

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __iter__(self) -> Iterator[object]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, Integers) else other)

    def __hash__(self) -> int:
        return hash(self._items)

    def as_array(self) -> Array:
        """A one-dimensional array that starts at index 1."""
        return Array.of(cast("tuple[object, ...]", self))


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type with its modifier: varchar(10) is TypeRef(1043, 14), as in pg_attribute (atttypid, atttypmod).

    A value of a domain has the domain's base type in every respect, so that `oid` and `typmod` are the base type's, and
    `domain` the OID of the domain (of the array type over it for an array of them); it does not count in comparisons.
    """

    oid: int
    typmod: int = -1
    domain: int = field(default=0, compare=False)

    @property
    def declared(self) -> int:
        """The OID under which catalogs show the type: the domain's, if it is one."""
        return self.domain or self.oid


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """The session settings that shape a value's text form (PostgreSQL 16 manual, 20.11.2)."""

    date_style: str = "ISO"  # ISO, SQL, Postgres, German
    date_order: str = "MDY"  # MDY, DMY, YMD
    interval_style: str = "postgres"
    timezone: str = "UTC"
    bytea_output: str = "hex"
    extra_float_digits: int = 1
    text_search: str = "english"  # default_text_search_config without its schema
    transaction_time: int | None = None  # what 'now' means: microseconds since 2000-01-01 UTC; None: the clock


DEFAULT_FORMAT = FormatSettings()


@dataclass(frozen=True, slots=True)
class Storage:
    """How a value lies in a stored row (engine/storage/rows.py).

    A fixed value has a `struct` code (little-endian, no padding: '?', 'h', 'i', 'q', 'I', 'f', 'd' or '16s') and the
    same NumPy dtype. A variable value is bytes in the row's heap. `to_storage`/`from_storage` are None where the
    internal form already is what `struct` or the heap takes (int, float, bool, bytes).
    """

    struct_code: str | None
    to_storage: Callable[[object], object] | None = None
    from_storage: Callable[[object], object] | None = None

    @property
    def is_fixed(self) -> bool:
        return self.struct_code is not None

    def save(self, value: object) -> bytes:
        """The bytes that are stored of a value."""
        stored: Any = value if self.to_storage is None else self.to_storage(value)
        return stored if self.struct_code is None else struct.pack("<" + self.struct_code, stored)

    def load(self, stored: bytes) -> object:
        """The value of which they are stored."""
        found: Any = stored if self.struct_code is None else struct.unpack("<" + self.struct_code, stored)[0]
        return found if self.from_storage is None else self.from_storage(found)


class Layout(Enum):
    """What a stored value is to the Arrow column that carries its type (engine/storage/columns.py)."""

    VALUES = auto()  # neither its number nor its bytes: values are converted one by one, to text where nothing is said
    NUMBERS = auto()  # the same number, or one that counts from another day
    WIDENED = auto()  # an unsigned number of four bytes: a signed one of eight
    BOOLEANS = auto()
    TEXT = auto()  # the same UTF-8
    DECIMALS = auto()  # the text of a DECIMAL
    BYTES = auto()  # the same bytes
    FIXED_BYTES = auto()  # the same bytes, of which there are always as many
    INTERVALS = auto()


class Order(Enum):
    """How DuckDB compares what carries the type."""

    NATIVE = auto()  # as PostgreSQL compares the values
    BY_KEY = auto()  # otherwise: the bytes of `key_encoder` are compared
    NONE = auto()  # the values have no order


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What columns of a type are, beside their DuckDB type. Whole columns are converted, sent, and encoded as keys by
    what is said here; nothing need be said: then it goes value by value, by the codecs of the type."""

    layout: Layout = Layout.VALUES
    arrow: str = ""  # of NUMBERS: Arrow's name of the type
    epoch: int = 0  # of NUMBERS: Arrow counts from so much before 2000-01-01
    key: tuple[str, int] | None = None  # a key that is the stored number: its struct code, and what is added to it
    sent: str = ""  # NumPy's name of what the send function makes of a number
    sent_as_held: bool = False  # the send function gives what the column holds: text, bytes
    printed: bool = False  # VARCHAR holds what the output function gives
    digits: bool = True  # the output function prints a number as its digits
    order: Order = Order.NATIVE
    output_of_settings: bool = False  # the text of a value depends on settings
    input_of_settings: bool = False  # what a text means depends on settings


EPOCH_DAYS = 10957
"""1970-01-01 .. 2000-01-01"""
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000


class SqlType:
    """One type. Subclasses implement the hooks; everything here raises SqlError with PostgreSQL's SQLSTATE.

    Encoders and decoders are *made once* at planning (`text_encoder(settings)`) and called once a value.
    Codec inputs are never None: NULL is handled by the caller.
    """

    oid: int
    array_oid: int  # 0 if none
    name: str  # pg_type.typname: 'int4'
    sql_name: str  # what format_type prints: 'integer'
    category: str  # pg_type.typcategory
    preferred: bool
    length: int  # pg_type.typlen: bytes, or -1
    storage: Storage
    delimiter: str = ","  # pg_type.typdelim: what stands between elements in the text of arrays
    columns: Columns = Columns()
    long: int | None = long_values.LONG  # bytes from which on a process reads a value; None: none does

    # --- text form ---------------------------------------------------------------------------------------------
    def text_decoder(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        """The input function as statements call it, with texts of any length."""
        read = self.input_function(settings, typmod)
        return read if self.long is None else long_values.text_reader(self, read, settings, typmod, self.long)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        """Makes it: text -> internal form, with the modifier applied as an input function would.

        Raises 22P02 (bad text), 22003 (out of range), 22007/22008 (dates), 22001 (too long).
        """
        raise NotImplementedError

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        """Makes the output function: internal form -> UTF-8 text, as PostgreSQL prints it."""
        raise NotImplementedError

    # --- binary form -------------------------------------------------------------------------------------------
    def binary_decoder(self, typmod: int = -1) -> Callable[[bytes], object]:
        """The receive function as statements call it. That of a type of one length looks at the length first."""
        read = self.receive_function(typmod)
        if self.long is None or self.length > 0:
            return read
        return long_values.binary_reader(self, read, typmod, self.long)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        """Makes it. Raises 22P03 (bad binary form), 08P01 (wrong length)."""
        raise NotImplementedError

    def binary_encoder(self) -> Callable[[object], bytes]:
        """Makes the send function."""
        raise NotImplementedError

    # --- long values -------------------------------------------------------------------------------------------
    def of_stored(self, stored: bytes) -> object:
        """The value of which this is stored, with it, where the type can have it so (catalog/types/long_values.py)."""
        return self.storage.load(stored)

    def with_stored(self, value: object) -> object:
        """The value with what is stored of it, where that takes long to make."""
        return value

    # --- modifiers ---------------------------------------------------------------------------------------------
    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        """('10',) for varchar(10) -> 14. Raises 22023 for a bad modifier, 42601 where the type takes none."""
        raise SqlError("42601", f'type modifier is not allowed for type "{self.name}"')

    def typmod_out(self, typmod: int) -> str:
        """14 -> '(10)'; -1 -> ''."""
        return ""

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[object], object] | None:
        """What a value of this type goes through to fit the modifier; None when nothing is needed.

        Implicit (assignment) coercion of a too long varchar raises 22001, explicit truncates; numeric rounds and
        raises 22003 past its precision; timestamp(p), time(p), interval(p) round.
        """
        return None

    # --- order -------------------------------------------------------------------------------------------------
    def sort_key(self) -> Callable[[object], object] | None:
        """Makes a function to a Python-comparable key in PostgreSQL's btree order; None if the value is one itself.

        Values with equal keys are equal in SQL (1.0 and 1.00; bpchar with and without trailing blanks).
        NaN sorts above everything and equals itself.
        """
        return None

    def equality_key(self) -> Callable[[Any], object] | None:
        """As `sort_key`, for whoever asks whether values are equal and no more."""
        return self.sort_key()

    def key_encoder(self) -> Callable[[object], bytes] | None:
        """Makes the encoder of the order-preserving, self-delimiting bytes used in storage keys.

        Equal values (by the type's btree equality) give equal bytes; bytes compare as the values do. None where the
        type has no btree order (json): it cannot be in a key (42704 at DDL).
        """
        return None

    # --- columns -----------------------------------------------------------------------------------------------
    def duckdb_type(self, typmod: int = -1) -> str:
        """The DuckDB type that carries it: see catalog/types, 'Values in columns'."""
        raise NotImplementedError
