"""The base of types: name and OIDs, text and binary forms, and the forms in rows, keys, Arrow and DuckDB.

Each type has a file (`catalog/types/<type>.py`), and `catalog.types` registers its `SqlType`. In the engine a value has
one *internal form*, from which `struct` and NumPy encode rows and keys:

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
    """An interval as in PostgreSQL: three independent parts."""

    months: int
    days: int
    microseconds: int


class Array(NamedTuple):
    """An array of any dimensions, with its elements in row-major order. The empty array has no dimensions."""

    elements: tuple[object, ...]
    dimensions: tuple[int, ...]
    lower_bounds: tuple[int, ...]

    @classmethod
    def of(cls, elements: tuple[object, ...]) -> Array:
        """Returns a one-dimensional array with subscripts from 1."""
        return cls(elements, (len(elements),), (1,)) if elements else EMPTY_ARRAY


EMPTY_ARRAY = Array((), (), ())


class StoredArray(Array):
    """A large array that a thread has read, with its stored form. So a write need not make the stored form, which takes
    a second for a million elements. `stored_as` is the element type in the stored form."""

    stored: bytes = b""
    stored_as: int = 0


class Parts(Sequence[Any]):
    """The parts of a long value with a known stored form. They become a tuple at the first access."""

    __slots__ = ("_load", "_made", "stored", "stored_as")

    def __init__(
        self, stored: bytes, stored_as: int, load: Callable[[bytes], tuple[Any, ...]], made: Any = None
    ) -> None:
        self.stored = stored
        self.stored_as = stored_as  # the type of the stored form
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
    """Whether a value has its stored form. Such a value is written to its row directly, not through columns."""
    return bool(getattr(value, "stored", b""))


class Integers(Sequence[object]):
    """The elements of a large array of integers, in a NumPy column. They become Python objects at the first access,
    which takes some milliseconds for 100,000, and as long again to free them."""

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
        """Returns a one-dimensional array with subscripts from 1."""
        return Array.of(cast("tuple[object, ...]", self))


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type with its modifier: varchar(10) is TypeRef(1043, 14), as in pg_attribute (atttypid, atttypmod).

    A value of a domain has the domain's base type, so `oid` and `typmod` are the base type's. `domain` is the OID of
    the domain, or for an array of a domain the OID of its array type. Comparisons ignore `domain`.
    """

    oid: int
    typmod: int = -1
    domain: int = field(default=0, compare=False)

    @property
    def declared(self) -> int:
        """The OID of the type in catalogs: the domain's for a domain."""
        return self.domain or self.oid


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """The session settings on which text forms of values depend (PostgreSQL 16 manual, 20.11.2)."""

    date_style: str = "ISO"  # ISO, SQL, Postgres, German
    date_order: str = "MDY"  # MDY, DMY, YMD
    interval_style: str = "postgres"
    timezone: str = "UTC"
    bytea_output: str = "hex"
    extra_float_digits: int = 1
    text_search: str = "english"  # default_text_search_config without its schema
    transaction_time: int | None = None  # the value of 'now': microseconds since 2000-01-01 UTC; None: the clock
    similarity_threshold: float = 0.3  # these three are settings pg_trgm.*
    word_similarity_threshold: float = 0.6
    strict_word_similarity_threshold: float = 0.5
    xml_option: str = "content"  # or document
    xml_binary: str = "base64"  # or hex


DEFAULT_FORMAT = FormatSettings()


@dataclass(frozen=True, slots=True)
class Storage:
    """The form of a value in a stored row (engine/storage/rows.py).

    A fixed value has a `struct` code (little-endian, no padding: '?', 'h', 'i', 'q', 'I', 'f', 'd' or '16s') and the
    same NumPy dtype. A variable value is bytes in the row's heap. `to_storage` and `from_storage` are None if `struct`
    or the heap accept the internal form (int, float, bool, bytes).
    """

    struct_code: str | None
    to_storage: Callable[[object], object] | None = None
    from_storage: Callable[[object], object] | None = None

    @property
    def is_fixed(self) -> bool:
        return self.struct_code is not None

    def save(self, value: object) -> bytes:
        """Returns the stored form of a value."""
        stored: Any = value if self.to_storage is None else self.to_storage(value)
        return stored if self.struct_code is None else struct.pack("<" + self.struct_code, stored)

    def load(self, stored: bytes) -> object:
        """Returns the value of a stored form."""
        found: Any = stored if self.struct_code is None else struct.unpack("<" + self.struct_code, stored)[0]
        return found if self.from_storage is None else self.from_storage(found)


class Layout(Enum):
    """The relation between a stored value and the value in an Arrow column (engine/storage/columns.py)."""

    VALUES = auto()  # values are converted one by one, by default to text
    NUMBERS = auto()  # the same number, or a number with another epoch
    WIDENED = auto()  # stored unsigned in four bytes, in the column signed in eight bytes
    BOOLEANS = auto()
    TEXT = auto()  # the same UTF-8 bytes
    DECIMALS = auto()  # the text of a DECIMAL
    BYTES = auto()  # the same bytes
    FIXED_BYTES = auto()  # the same bytes, with a fixed length
    INTERVALS = auto()


class Order(Enum):
    """The way in which DuckDB compares values of a type."""

    NATIVE = auto()  # DuckDB compares as PostgreSQL does
    BY_KEY = auto()  # DuckDB compares the bytes of `key_encoder`
    NONE = auto()  # the values have no order


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The properties of a type's columns, besides their DuckDB type. By these properties whole columns are converted,
    sent, and encoded as keys. By default the type's codecs convert each value."""

    layout: Layout = Layout.VALUES
    arrow: str = ""  # NUMBERS: Arrow's name of the type
    epoch: int = 0  # NUMBERS: the difference between Arrow's epoch and 2000-01-01
    key: tuple[str, int] | None = None  # if the key is the stored number: its struct code, and an addend
    sent: str = ""  # the send function's output for a number, as a NumPy type
    sent_as_held: bool = False  # the send function returns the column's value: text, bytes
    printed: bool = False  # VARCHAR has the text of the output function
    digits: bool = True  # the output function prints a number as decimal digits
    order: Order = Order.NATIVE
    output_of_settings: bool = False  # the text of a value depends on settings
    input_of_settings: bool = False  # the value of a text depends on settings


EPOCH_DAYS = 10957
"""Days from 1970-01-01 to 2000-01-01."""
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000


class SqlType:
    """One type. Subclasses override the methods, which raise SqlError with PostgreSQL's SQLSTATE.

    Encoders and decoders are *made once* at planning (`text_encoder(settings)`) and called for each value. Their
    arguments are never None: the caller handles NULL.
    """

    oid: int
    array_oid: int  # 0 if none
    name: str  # pg_type.typname: 'int4'
    sql_name: str  # the text of format_type: 'integer'
    category: str  # pg_type.typcategory
    preferred: bool
    length: int  # pg_type.typlen: bytes, or -1
    storage: Storage
    delimiter: str = ","  # pg_type.typdelim: the delimiter of elements in the text of arrays
    columns: Columns = Columns()
    long: int | None = long_values.LONG  # bytes: a separate process reads longer values; None: never

    # --- text form ---------------------------------------------------------------------------------------------
    def text_decoder(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        """Returns the input function for statements, which reads texts of any length."""
        read = self.input_function(settings, typmod)
        return read if self.long is None else long_values.text_reader(self, read, settings, typmod, self.long)

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        """Returns the input function: text -> internal form, with the modifier applied.

        Raises 22P02 (bad text), 22003 (out of range), 22007/22008 (dates), 22001 (too long).
        """
        raise NotImplementedError

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[object], bytes]:
        """Returns the output function: internal form -> UTF-8 text, as PostgreSQL prints it."""
        raise NotImplementedError

    # --- binary form -------------------------------------------------------------------------------------------
    def binary_decoder(self, typmod: int = -1) -> Callable[[bytes], object]:
        """Returns the receive function for statements, which reads values of any length. The receive function of a type
        with a fixed length checks the length first, so it needs no separate process."""
        read = self.receive_function(typmod)
        if self.long is None or self.length > 0:
            return read
        return long_values.binary_reader(self, read, typmod, self.long)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        """Returns the receive function: binary form -> internal form. It raises 22P03 (bad binary form), 08P01 (wrong
        length)."""
        raise NotImplementedError

    def binary_encoder(self) -> Callable[[object], bytes]:
        """Returns the send function: internal form -> binary form."""
        raise NotImplementedError

    # --- long values -------------------------------------------------------------------------------------------
    def of_stored(self, stored: bytes) -> object:
        """Returns the value of a stored form. For types with long values, the value keeps its stored form
        (catalog/types/long_values.py)."""
        return self.storage.load(stored)

    def with_stored(self, value: object) -> object:
        """Returns the value with its stored form, if that takes long to make."""
        return value

    # --- modifiers ---------------------------------------------------------------------------------------------
    def typmod_in(self, arguments: tuple[str, ...]) -> int:
        """Returns the modifier for its arguments: ('10',) -> 14 for varchar(10). Raises 22023 for a bad modifier, 42601
        if the type has none."""
        raise SqlError("42601", f'type modifier is not allowed for type "{self.name}"')

    def typmod_out(self, typmod: int) -> str:
        """Returns the text of a modifier: 14 -> '(10)'; -1 -> ''."""
        return ""

    def length_coercion(self, typmod: int, explicit: bool) -> Callable[[object], object] | None:
        """Returns the function that coerces a value of this type to the modifier; None if no coercion is necessary.

        Implicit (assignment) coercion of a too long varchar raises 22001, explicit coercion truncates; numeric rounds,
        and raises 22003 for too many digits; timestamp(p), time(p), interval(p) round.
        """
        return None

    # --- order -------------------------------------------------------------------------------------------------
    def sort_key(self) -> Callable[[object], object] | None:
        """Returns a function from a value to a key that Python compares in PostgreSQL's btree order; None if the values
        are such keys.

        Values with equal keys are equal in SQL (1.0 and 1.00; bpchar with and without trailing blanks). NaN is greater
        than all other values and equal to itself.
        """
        return None

    def equality_key(self) -> Callable[[Any], object] | None:
        """Returns the same as `sort_key`, for tests of equality only."""
        return self.sort_key()

    def key_encoder(self) -> Callable[[object], bytes] | None:
        """Returns the encoder of the order-preserving, self-delimiting bytes in storage keys.

        Equal values (by the type's btree equality) have equal bytes; bytes have the order of the values. None if the
        type has no btree order (json): it cannot be in a key (42704 at DDL).
        """
        return None

    # --- columns -----------------------------------------------------------------------------------------------
    def carrier(self) -> SqlType:
        """Returns the codec of the text that DuckDB holds for a type whose DuckDB type is text. It is another one where
        the text of a value follows changes of other types, such as a label of an enum."""
        return self

    def duckdb_type(self, typmod: int = -1) -> str:
        """Returns the DuckDB type of the type's values: see catalog/types, 'Values in columns'."""
        raise NotImplementedError
