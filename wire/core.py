"""The protocol core: bytes in, events out. It does no I/O and has no clock (the pattern of h11).

    core.receive_data(data)         appends bytes
    core.next_event()               the next whole message as an event, NEED_DATA if there is none

The core's own decisions are in tables below: the messages of each phase, their maximal lengths, and the messages that
are skipped after an error. PostgreSQL 16 manual, 55.2 (message flow) and 55.7 (formats). The server around it does
authentication and TLS, and runs statements.

    phase        may come                                             then
    startup      StartupMessage SSLRequest GSSENCRequest Cancel       ready | startup (after SSLRequest refused) |
                                                                      closed
    ready        Query Parse Bind Describe Execute Close Flush Sync   ready | skipping (after error()) | copy_in
                 FunctionCall Terminate; CopyData/Done/Fail are ignored
    skipping     everything but Sync and Terminate is dropped         ready at Sync
    copy_in      CopyData CopyDone CopyFail Flush Sync Terminate      ready at end_copy()

Between the startup message and `ready` the server may ask for proofs (`authenticate`): then only PasswordMessages may
come, also called SASLInitialResponse and SASLResponse.

Limits: a startup packet has at most 10,000 bytes, a proof 64 KiB, a message at most 1 GiB (a Query 64 MiB), a length
below 4 is fatal. Bytes that follow an SSLRequest in the same packet are fatal (CVE-2021-23214).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from catalog.errors import SqlError
from catalog.types.many import Places, Values
from wire.copy_frames import MINIMUM, strip_headers

_I32 = struct.Struct(">i").unpack_from
_U16 = struct.Struct(">H").unpack_from

STARTUP_LIMIT = 10_000
PROOF_LIMIT = 64 << 10
LARGE_BIND = 1 << 17  # bytes of a Bind that may take milliseconds to read
MESSAGE_LIMIT = 1 << 30
QUERY_LIMIT = 64 << 20

PROTOCOL_3_0 = 196608
NEWEST_MINOR = 2  # cancel keys are longer since then (PostgreSQL 18 manual, 54.1)
# Describe and Execute of the unnamed portal; the rest of Execute is its limit.
DESCRIBE = b"D\0\0\0\x06P\0"
EXECUTE = b"E\0\0\0\x09\0"
LIMIT_BYTES = 4
# Execute without a limit, then Sync; with a Describe before it; and with a limit of one row, as JDBC's driver sends
# a statement without rows.
TAIL = EXECUTE + b"\0\0\0\0S\0\0\0\x04"
TAIL_DESCRIBED = DESCRIBE + TAIL
TAIL_LIMITED = EXECUTE + b"\0\0\0\x01S\0\0\0\x04"
TAILS = (TAIL, TAIL_DESCRIBED, TAIL_LIMITED, DESCRIBE + TAIL_LIMITED)
REMEMBERED = 1024  # executions of one connection
LONG = 64 << 10  # bytes of a message whose parts are joined once

CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104


class NeedData:
    """No whole message is there yet."""


NEED_DATA = NeedData()


@dataclass(frozen=True, slots=True)
class Startup:
    """`minor` is the protocol's minor version that the client asked for; parameters as sent."""

    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class EncryptionRequest:
    kind: str  # ssl | gss


@dataclass(frozen=True, slots=True)
class CancelRequest:
    process_id: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The body of a PasswordMessage."""

    data: bytes


# The messages of the cached path are plain classes: a frozen dataclass takes three times as long to make.


class Query:
    __slots__ = ("sql",)

    def __init__(self, sql: bytes) -> None:
        self.sql = sql


@dataclass(frozen=True, slots=True)
class Parse:
    name: bytes
    sql: bytes
    types: tuple[int, ...]


class Execution:
    """A whole execution of a prepared statement in the unnamed portal, as most drivers send it (Bind, maybe Describe,
    Execute, Sync), without its parameters: it is the same each time that a client runs the statement.

    `prefix` is Bind from its portal to the number of parameters, `suffix` everything after the parameters, of which the
    first `results` bytes belong to Bind. `begin`: the start of the parameters in the message; `after`: bytes after
    them; `behind`: bytes that its length does not count. `limited`: Execute asks for one row. `memo` is free for the
    caller.
    """

    __slots__ = (
        "after", "begin", "behind", "count", "described", "limited", "memo", "parameter_formats", "places",
        "prefix", "result_formats", "results", "statement", "suffix",
    )  # fmt: skip

    def __init__(self, bind: Bind, tail: bytes) -> None:
        self.statement = bind.statement
        self.parameter_formats = bind.parameter_formats
        self.result_formats = bind.result_formats
        self.described = tail.startswith(DESCRIBE)
        self.limited = tail.endswith(TAIL_LIMITED)
        self.count = len(bind.parameters)
        self.places = range(self.count)
        self.prefix, bound = bind.around()
        self.results = len(bound)
        self.suffix = bound + tail
        self.begin = 5 + len(self.prefix)
        self.behind = len(tail) + 1
        self.after = len(self.suffix)
        self.memo: Any = None

    @property
    def tail(self) -> int:
        """The bytes after Bind."""
        return len(self.suffix) - self.results


class Bind:
    """Formats as sent: none, one for all, or one each. Parameters: bytes or None.

    `execution`: set when the rest of a whole execution of the unnamed portal follows in the buffer. A caller that runs
    it at once calls `ProtocolCore.skip`; otherwise it comes as events.
    """

    __slots__ = ("execution", "parameter_formats", "parameters", "portal", "result_formats", "statement")

    def __init__(
        self,
        portal: bytes,
        statement: bytes,
        parameter_formats: tuple[int, ...],
        parameters: list[bytes | None],
        result_formats: tuple[int, ...],
    ) -> None:
        self.portal = portal
        self.statement = statement
        self.parameter_formats = parameter_formats
        self.parameters = parameters
        self.result_formats = result_formats
        self.execution: Execution | None = None

    def around(self) -> tuple[bytes, bytes]:
        """The message from its portal to the number of parameters, and the rest after the parameters."""
        parameters, results = self.parameter_formats, self.result_formats
        counts = struct.pack(f">H{len(parameters)}HH", len(parameters), *parameters, len(self.parameters))
        bound = struct.pack(f">H{len(results)}H", len(results), *results)
        return b"%b\0%b\0" % (self.portal, self.statement) + counts, bound


class LargeBind(Bind):
    """A Bind whose parameters may take long to read."""

    __slots__ = ()


class Batch:
    """A Bind and equal ones that follow: the same statement in the same formats, each followed by the same Execute of
    the unnamed portal, maybe with a Describe between. `ends`: the end of each of these executions; `first` and
    `lengths`: the places of their parameters in `data`, a row for each parameter."""

    __slots__ = ("_data", "_first", "_lengths", "described", "ends")

    def __init__(self, described: bool, ends: list[int], data: bytes, first: Places, lengths: Places) -> None:
        self.described = described
        self.ends = ends
        self._data = data
        self._first = first
        self._lengths = lengths

    def columns(self, each: int) -> list[Values]:
        """The parameters; this many make a row: an execution has one row or several."""
        return Values.columns(self._data, self._rows(self._first, each), self._rows(self._lengths, each))

    def _rows(self, places: Places, each: int) -> Places:
        parameters, executions = places.shape
        if parameters == each:
            return places
        return places.reshape(parameters // each, each, executions).transpose(1, 2, 0).reshape(each, -1)


class WaitingExecution:
    """An execution that arrived alone and has to wait, with its parameters, and its bytes in case it must come as
    events after all (`ProtocolCore.push_back`)."""

    __slots__ = ("data", "execution", "parameters")

    def __init__(self, execution: Execution, parameters: list[bytes | None], data: bytes) -> None:
        self.execution = execution
        self.parameters = parameters
        self.data = data


class Describe:
    """kind: S statement, P portal."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str, name: bytes) -> None:
        self.kind = kind
        self.name = name


class Execute:
    __slots__ = ("limit", "portal")

    def __init__(self, portal: bytes, limit: int) -> None:
        self.portal = portal
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Close:
    kind: str
    name: bytes


@dataclass(frozen=True, slots=True)
class CopyData:
    """The payload of one message, or of a run of them joined."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyFail:
    reason: str


class Sync:
    pass


class Flush:
    pass


class CopyDone:
    pass


class Terminate:
    pass


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Formats as in Bind; the result's is one code."""

    function: int  # OID
    formats: tuple[int, ...]
    arguments: list[bytes | None]
    result_format: int


SYNC, FLUSH, COPY_DONE, TERMINATE = Sync(), Flush(), CopyDone(), Terminate()

Event = (
    NeedData
    | Startup
    | EncryptionRequest
    | CancelRequest
    | Proof
    | Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | CopyData
    | CopyFail
    | CopyDone
    | Sync
    | Flush
    | Terminate
    | FunctionCall
)


def violation(message: str) -> SqlError:
    """08P01: a violation by the client. Fatal: the boundaries of messages are lost."""
    return SqlError("08P01", message, severity="FATAL")


class ProtocolCore:
    """The incoming side of one connection. Raises SqlError (08P01, FATAL) for invalid messages."""

    __slots__ = ("_authenticating", "_buffer", "_executions", "_left", "_missing", "_parts", "_position", "phase")

    def __init__(self) -> None:
        self._authenticating = False
        self._buffer = b""
        self._position = 0
        self._parts: list[bytes] = []  # bytes after the buffer, of an incomplete long message
        self._missing = 0  # bytes of that message
        self._left = 0  # remaining bytes of a CopyData that was returned in part
        self._executions: dict[bytes, Execution] = {}  # by the statement's name
        self.phase = "startup"

    def receive_data(self, data: bytes) -> None:
        """Appends bytes."""
        if self._position >= len(self._buffer):
            self._buffer = data
        elif self._missing:  # a long message is joined once, not with every part of it
            self._parts.append(data)
            self._missing = max(self._missing - len(data), 0)
            if not self._missing:
                self._join()
            return
        else:
            self._buffer = self._buffer[self._position :] + data
        self._position = 0

    def _join(self) -> None:
        """Makes one buffer of the bytes that were not returned."""
        self._buffer = b"".join((self._buffer[self._position :], *self._parts))
        self._parts.clear()
        self._missing = self._position = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet returned."""
        return len(self._buffer) - self._position + sum(map(len, self._parts))

    def authenticate(self) -> None:
        """The server asks the client for a proof."""
        self._authenticating = True

    def ready(self) -> None:
        """The start-up is over."""
        self.phase = "ready"

    def error(self) -> None:
        """An extended-query message failed: everything up to the next Sync is dropped."""
        self.phase = "skipping"

    def begin_copy(self) -> None:
        self.phase = "copy_in"

    def end_copy(self, failed: bool, extended: bool) -> None:
        """COPY FROM STDIN has ended. After a failure the rest of the data is dropped: up to Sync in the extended
        protocol; in the simple one CopyData and its end are ignored in phase ready anyway."""
        self.phase = "skipping" if failed and extended else "ready"

    def next_event(self) -> Event:
        """The next message as an event, or NEED_DATA."""
        if self.phase == "startup":
            return self._startup()
        if self._left and (event := self._more_copy_data()) is not None:
            return event
        buffer, position = self._buffer, self._position
        while len(buffer) - position >= 5 and not self._missing:
            kind = buffer[position]
            length = _I32(buffer, position + 1)[0]
            reader = _READERS.get(kind)
            if reader is None or length < 4 or length > MESSAGE_LIMIT or (kind == 0x51 and length > QUERY_LIMIT):
                raise self._refuse(kind, length)
            end = position + 1 + length
            if kind == 0x64 and self.phase == "copy_in" and len(buffer) - position >= MINIMUM:
                if end > len(buffer):  # its data need not come at once
                    self._position, self._left = len(buffer), end - len(buffer)
                    return CopyData(buffer[position + 5 :])
                data, run_end = strip_headers(buffer, position) if length < MINIMUM else (b"", position)
                if data:
                    self._position = run_end
                    return CopyData(data)
            if end > len(buffer):
                if end - position >= LONG:
                    self._missing = end - len(buffer)
                break
            self._position = position = end
            if self.phase == "ready":
                if kind in _COPY_KINDS:
                    continue
            elif not self._is_wanted(kind):
                continue
            try:
                event = reader(buffer, end - length + 4, end)
                if kind == 0x42 and type(event) is Bind and not event.portal:
                    event.execution = self._execution(event, end)
                return event
            except (struct.error, ValueError, IndexError):
                raise violation("invalid message format") from None
        self._position = position
        return NEED_DATA

    def _more_copy_data(self) -> Event | None:
        """More bytes of a CopyData that was returned in part; dropped if COPY has ended meanwhile. None: the next
        message must be parsed."""
        start = self._position
        self._position = min(len(self._buffer), start + self._left)
        self._left -= self._position - start
        if self._position > start and self.phase == "copy_in":
            return CopyData(self._buffer[start : self._position])
        return NEED_DATA if self._left else None

    def _drop_copy_data(self) -> None:
        """Drops the messages of COPY at the beginning of the buffer, and the rest of one that was returned in part."""
        if self._left and self._more_copy_data() is not None:
            return
        buffer, position = self._buffer, self._position
        while len(buffer) - position >= 5 and buffer[position] in _COPY_KINDS and not self._missing:
            end = position + 1 + _I32(buffer, position + 1)[0]
            if not position + 5 <= end <= len(buffer):
                break
            position = end
        self._position = position

    def peek(self) -> tuple[list[Event], int]:
        """The messages up to the first that ReadyForQuery answers (Query, Sync, FunctionCall), or all that have
        arrived, as events; and their size in bytes. They stay and come again from `next_event`. Messages of a failed
        COPY before them are dropped, so that `take_rest` begins at a message."""
        if self.phase == "ready":
            self._drop_copy_data()
        before, phase, left = self._position, self.phase, self._left
        events: list[Event] = []
        try:
            while (event := self.next_event()) is not NEED_DATA:
                events.append(event)
                if isinstance(event, Query | Sync | FunctionCall | Terminate):
                    break
            return events, self._position - before
        finally:
            if self._position != before:
                self._missing = 0  # of a message that is not the next one
            self._position, self.phase, self._left = before, phase, left

    def take_rest(self) -> bytes:
        """Takes all bytes that were not returned, for another reader."""
        self._join()
        data, self._buffer, self._position = self._buffer[self._position :], b"", 0
        return data

    def _execution(self, bind: Bind, position: int) -> Execution | None:
        """The execution that the Bind begins, if the rest of it follows at this position; cached."""
        if not self._buffer.startswith(TAILS, position):
            return None
        execution = Execution(bind, next(tail for tail in TAILS if self._buffer.startswith(tail, position)))
        known = self._executions.get(bind.statement)
        if known is not None and known.prefix == execution.prefix and known.suffix == execution.suffix:
            return known
        if len(self._executions) >= REMEMBERED:
            self._executions.clear()
        self._executions[bind.statement] = execution
        return execution

    def skip(self, execution: Execution) -> None:
        """Skips the rest of the execution that the last Bind begins."""
        self._position += execution.tail

    def batch(self, bind: Bind, most: int, least: int = 2) -> Batch | None:
        """The batch of the last Bind, if it uses the unnamed portal and at least `least` equal ones have arrived,
        including itself, up to a maximum. They stay: `skip_batch` skips those that have run."""
        buffer, position = self._buffer, self._position
        described = buffer.startswith(DESCRIBE, position)
        execute = position + len(DESCRIBE) if described else position
        end = execute + len(EXECUTE) + LIMIT_BYTES
        if not buffer.startswith(EXECUTE, execute) or len(buffer) < end:
            return None
        if least > 1 and not buffer.startswith(b"B", end):
            return None
        prefix, bound = bind.around()
        tail = bound + buffer[position:end]
        starts, stops, ends = [position - len(bound) - _size(bind.parameters)], [position - len(bound)], [end]
        head = len(prefix) + 5
        while len(ends) < most and buffer.startswith(b"B", end) and buffer.startswith(prefix, end + 5):
            stop = end + 1 + _I32(buffer, end + 1)[0] - len(bound)
            if stop < end + head or not buffer.startswith(tail, stop):
                break
            starts.append(end + head)
            stops.append(stop)
            end = stop + len(tail)
            ends.append(end)
        if len(ends) < least:
            return None
        places = _places(buffer, starts, stops, len(bind.parameters))
        return None if places is None else Batch(described, ends, buffer, *places)

    def skip_batch(self, batch: Batch, executions: int) -> None:
        """Skips the first executions of a batch."""
        self._position = batch.ends[executions - 1]

    def whole_execution(self, data: bytes) -> tuple[Execution, list[bytes | None]] | None:
        """The bytes, if they are exactly a whole execution of a known kind: with its parameters. Then `receive_data`
        must not be called. None: it must."""
        execution = self._executions.get(data[6 : data.find(0, 6)])
        if (
            execution is None
            or self._position < len(self._buffer)
            or self.phase != "ready"
            or self._left
            or not data.startswith(execution.prefix, 5)
            or not data.endswith(execution.suffix)
        ):
            return None
        size = len(data)
        (length,) = _I32(data, 1)
        if length != size - execution.behind:
            return None
        end = execution.begin
        parameters: list[bytes | None] = []
        try:
            for _ in execution.places:
                (length,) = _I32(data, end)
                start = end + 4
                if length < 0:
                    parameters.append(None)
                    end = start
                else:
                    end = start + length
                    parameters.append(data[start:end])
        except struct.error:  # a length that leads beyond the buffer
            return None
        # It only grows: none of them reached beyond the last one's end.
        return (execution, parameters) if end == size - execution.after else None

    def whole_query(self, data: bytes) -> bytes | None:
        """The bytes, if they are exactly one Query: its text. Then `receive_data` must not be called."""
        size = len(data)
        if self._position < len(self._buffer) or self.phase != "ready" or self._left:
            return None
        if size < 6 or _I32(data, 1)[0] + 1 != size:
            return None
        return None if data[-1] else data[5:-1]

    def push_back(self, data: bytes) -> None:
        """Puts back the bytes of `whole_execution`, before everything that has arrived since."""
        self._join()
        self._buffer = data + self._buffer[self._position :]
        self._position = 0

    def _is_wanted(self, kind: int) -> bool:
        """Whether a message counts in the phases skipping and copy_in."""
        if self.phase == "skipping":
            if kind == 0x53:
                self.phase = "ready"
                return True
            return kind == 0x58
        if kind in _COPY_KINDS or kind == 0x58:
            return True
        if kind in (0x48, 0x53):
            return False
        raise violation(f"unexpected message type 0x{kind:02X} during COPY from stdin")

    def _refuse(self, kind: int, length: int) -> SqlError:
        if kind not in _READERS:
            return violation(f"invalid frontend message type {kind}")
        return violation(f"invalid message length {length}")

    def _proof(self) -> Event:
        buffer, position = self._buffer, self._position
        if len(buffer) - position < 5:
            return NEED_DATA
        length = _I32(buffer, position + 1)[0]
        if buffer[position] != 0x70:
            raise violation(f"expected password response, got message type {buffer[position]}")
        if not 4 <= length <= PROOF_LIMIT:
            raise violation("invalid password packet size")
        end = position + 1 + length
        if len(buffer) < end:
            return NEED_DATA
        self._position = end
        return Proof(buffer[position + 5 : end])

    def _startup(self) -> Event:
        if self._authenticating:
            return self._proof()
        buffer, position = self._buffer, self._position
        if len(buffer) - position < 8:
            return NEED_DATA
        length, code = struct.unpack_from(">ii", buffer, position)
        if not 8 <= length <= STARTUP_LIMIT:
            raise violation("invalid length of startup packet")
        if len(buffer) - position < length:
            return NEED_DATA
        end = position + length
        self._position = end
        if code in (SSL_REQUEST, GSS_REQUEST):
            if len(buffer) > end:
                raise violation("received unencrypted data after SSL request")
            return EncryptionRequest("ssl" if code == SSL_REQUEST else "gss")
        if code == CANCEL_REQUEST:
            return CancelRequest(_I32(buffer, position + 8)[0] if length >= 12 else 0, buffer[position + 12 : end])
        if code >> 16 != 3:
            raise SqlError(
                "0A000",
                f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0 to 3.2",
                severity="FATAL",
            )
        return Startup(code & 0xFFFF, self._parameters(buffer[position + 8 : end]))

    def _parameters(self, body: bytes) -> dict[str, str]:
        if not body.endswith(b"\0"):
            raise violation("invalid startup packet layout: expected terminator as last byte")
        parts = body[:-1].split(b"\0")
        if parts.pop() or len(parts) % 2 or b"" in parts[::2]:
            raise violation("invalid startup packet layout: expected terminator as last byte")
        try:
            names = [part.decode() for part in parts]
        except UnicodeDecodeError:
            raise violation("invalid byte sequence in startup packet") from None
        return dict(zip(names[::2], names[1::2], strict=True))


def _size(values: list[bytes | None]) -> int:
    """The bytes that values take in a message."""
    return 4 * len(values) + sum([len(value) for value in values if value is not None])


def _places(data: bytes, starts: list[int], stops: list[int], count: int) -> tuple[Places, Places] | None:
    """The places of values in messages, and their lengths (-1 for NULL), a row for each of `count`; the values of each
    message fill the bytes from `starts` to `stops`. None if they do not."""
    if count > 2 * len(starts):
        return _places_one_by_one(data, starts, stops, count)
    first = np.empty((count, len(starts)), np.int64)
    lengths = np.empty_like(first)
    every = np.ndarray((max(len(data) - 3, 0),), ">i4", data, 0, (1,))
    place = np.array(starts, np.int64)
    try:
        for row in range(count):
            lengths[row] = every[place]
            place += 4
            first[row] = place
            place += np.maximum(lengths[row], 0)
    except IndexError:
        return None
    return (first, np.maximum(lengths, -1)) if (place == stops).all() else None


def _places_one_by_one(data: bytes, starts: list[int], stops: list[int], count: int) -> tuple[Places, Places] | None:
    """`_places` for many values of few messages."""
    found = []
    try:
        for start, stop in zip(starts, stops, strict=True):
            place = start
            for _ in range(count):
                (length,) = _I32(data, place)
                found.append((place + 4, length))
                place += 4 + max(length, 0)
            if place != stop:
                return None
    except struct.error:
        return None
    first, lengths = np.array(found, np.int64).reshape(len(starts), count, 2).transpose(2, 1, 0)
    return first, np.maximum(lengths, -1)


def _string(buffer: bytes, position: int, end: int) -> tuple[bytes, int]:
    stop = buffer.index(b"\0", position, end)
    return buffer[position:stop], stop + 1


def _last_string(buffer: bytes, position: int, end: int) -> bytes:
    value, stop = _string(buffer, position, end)
    if stop != end:
        raise ValueError
    return value


def _read_query(buffer: bytes, position: int, end: int) -> Event:
    if buffer[end - 1] or end == position:
        raise ValueError
    return Query(buffer[position : end - 1])


def _read_parse(buffer: bytes, position: int, end: int) -> Event:
    name, position = _string(buffer, position, end)
    sql, position = _string(buffer, position, end)
    count = _U16(buffer, position)[0]
    if position + 2 + 4 * count != end:
        raise ValueError
    types: tuple[int, ...] = struct.unpack_from(f">{count}I", buffer, position + 2)
    return Parse(name, sql, types)


def _read_bind(buffer: bytes, position: int, end: int) -> Event:
    kind = LargeBind if end - position > LARGE_BIND else Bind
    portal, position = _string(buffer, position, end)
    statement, position = _string(buffer, position, end)
    formats, position = _codes(buffer, position)
    parameters, position = _values(buffer, position, end)
    results, position = _codes(buffer, position)
    if position != end:
        raise ValueError
    return kind(portal, statement, formats, parameters, results)


def _read_function_call(buffer: bytes, position: int, end: int) -> Event:
    (function,) = struct.unpack_from(">I", buffer, position)
    formats, position = _codes(buffer, position + 4)
    arguments, position = _values(buffer, position, end)
    if position + 2 != end:
        raise ValueError
    return FunctionCall(function, formats, arguments, _U16(buffer, position)[0])


def _codes(buffer: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count = _U16(buffer, position)[0]
    codes: tuple[int, ...] = struct.unpack_from(f">{count}H", buffer, position + 2) if count else ()
    return codes, position + 2 + 2 * count


def _values(buffer: bytes, position: int, end: int) -> tuple[list[bytes | None], int]:
    count = _U16(buffer, position)[0]
    position += 2
    values: list[bytes | None] = []
    for _ in range(count):
        length = _I32(buffer, position)[0]
        position += 4
        values.append(None if length < 0 else buffer[position : position + length])
        position += max(length, 0)
        if position > end:
            raise ValueError
    return values, position


def _read_describe(buffer: bytes, position: int, end: int) -> Event:
    return Describe(_target(buffer, position), _last_string(buffer, position + 1, end))


def _read_close(buffer: bytes, position: int, end: int) -> Event:
    return Close(_target(buffer, position), _last_string(buffer, position + 1, end))


def _target(buffer: bytes, position: int) -> str:
    kind = chr(buffer[position])
    if kind not in "SP":
        raise ValueError
    return kind


def _read_execute(buffer: bytes, position: int, end: int) -> Event:
    stop = buffer.index(b"\0", position, end)
    if stop + 5 != end:
        raise ValueError
    return Execute(buffer[position:stop], _I32(buffer, stop + 1)[0])


def _read_copy_data(buffer: bytes, position: int, end: int) -> Event:
    return CopyData(buffer[position:end])


def _read_copy_fail(buffer: bytes, position: int, end: int) -> Event:
    return CopyFail(_last_string(buffer, position, end).decode(errors="replace"))


_COPY_KINDS = frozenset(b"dcf")
_READERS = {
    ord("Q"): _read_query,
    ord("P"): _read_parse,
    ord("B"): _read_bind,
    ord("D"): _read_describe,
    ord("E"): _read_execute,
    ord("C"): _read_close,
    ord("S"): lambda *_: SYNC,
    ord("H"): lambda *_: FLUSH,
    ord("X"): lambda *_: TERMINATE,
    ord("F"): _read_function_call,
    ord("d"): _read_copy_data,
    ord("c"): lambda *_: COPY_DONE,
    ord("f"): _read_copy_fail,
}
