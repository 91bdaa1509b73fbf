"""The positions of sequences.

The state of a sequence is one value in storage, under its storage id: (last value, whether it was returned). Values
come from memory. The log gets one record per 32 values, written ahead, as in PostgreSQL. After a crash a sequence
continues after the record: up to 32 values are skipped, and none is returned twice. ROLLBACK does not undo nextval and
setval.

A client must not receive a value before the record that covers it is durable. A transaction that commits has a later
LSN anyway; for a bare SELECT nextval the session waits for `last_logged_lsn`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.schema import Sequence

_STATE = struct.Struct("<q?")
_KEY = struct.Struct(">I")
LOG_AHEAD = 32


def state_key(storage_id: int) -> bytes:
    """The key of a sequence's state in storage."""
    return _KEY.pack(storage_id)


def encode_state(last: int, is_called: bool) -> bytes:
    return _STATE.pack(last, is_called)


def decode_state(value: bytes) -> tuple[int, bool]:
    last, is_called = _STATE.unpack(value)
    return last, is_called


@dataclass(slots=True)
class _Position:
    last: int
    is_called: bool
    logged: int  # number of further values that the newest record covers


class Sequences:
    """`read(key)` gives the newest sequenced value; `log(writes)` sequences a record and gives its LSN."""

    def __init__(self, read: Callable[[bytes], bytes | None], log: Callable[[dict[bytes, bytes | None]], int]) -> None:
        self._read = read
        self._log = log
        self._positions: dict[int, _Position] = {}
        self.last_logged_lsn = 0

    def next_value(self, sequence: Sequence) -> int:
        """The next value. Raises 2200H at the end of a sequence that does not cycle."""
        position = self._position(sequence)
        value = self._step(sequence, position)
        position.last = value
        position.is_called = True
        if position.logged > 0:
            position.logged -= 1
        else:
            self._log_ahead(sequence, position)
        return value

    def next_values(self, sequence: Sequence, count: int) -> range:
        """`count` consecutive values for a bulk load: one record. Raises 2200H (bulk loads do not wrap around)."""
        position = self._position(sequence)
        first = self._step(sequence, position)
        last = first + (count - 1) * sequence.increment
        if not sequence.minimum <= last <= sequence.maximum:
            raise _exhausted_error(sequence)
        position.last = last
        position.is_called = True
        self._log_ahead(sequence, position)
        return range(first, last + (1 if sequence.increment > 0 else -1), sequence.increment)

    def set_value(self, sequence: Sequence, value: int, is_called: bool) -> None:
        """setval. Raises 22003 outside the sequence's bounds."""
        if not sequence.minimum <= value <= sequence.maximum:
            raise SqlError(
                "22003",
                f'setval: value {value} is out of bounds for sequence "{sequence.name}"'
                f" ({sequence.minimum}..{sequence.maximum})",
            )
        self._positions[sequence.storage_id] = _Position(value, is_called, 0)
        self.last_logged_lsn = self._log({state_key(sequence.storage_id): encode_state(value, is_called)})

    def current(self, sequence: Sequence) -> tuple[int, bool]:
        """(last value, is_called), as `SELECT last_value, is_called FROM sequence` shows."""
        position = self._position(sequence)
        return position.last, position.is_called

    def logged_ahead(self, sequence: Sequence) -> int:
        """How many more values the newest record covers: log_cnt."""
        return self._position(sequence).logged

    def forget(self) -> None:
        """Positions are read again: another node may have drawn values, and records that were logged here may be
        undone."""
        self._positions.clear()
        self.last_logged_lsn = 0

    def settle(self) -> dict[bytes, bytes | None]:
        """The exact positions, to be logged at a clean stop so that nothing is skipped. A value that is still drawn
        afterwards is logged again."""
        settled: dict[bytes, bytes | None] = {}
        for storage_id, position in self._positions.items():
            if position.logged:
                settled[state_key(storage_id)] = encode_state(position.last, position.is_called)
                position.logged = 0
        return settled

    def _position(self, sequence: Sequence) -> _Position:
        position = self._positions.get(sequence.storage_id)
        if position is None:
            value = self._read(state_key(sequence.storage_id))
            last, is_called = decode_state(value) if value is not None else (sequence.start, False)
            position = self._positions[sequence.storage_id] = _Position(last, is_called, 0)
        return position

    def _step(self, sequence: Sequence, position: _Position) -> int:
        if not position.is_called:
            return position.last
        value = position.last + sequence.increment
        if sequence.minimum <= value <= sequence.maximum:
            return value
        if not sequence.cycle:
            raise _exhausted_error(sequence)
        return sequence.minimum if sequence.increment > 0 else sequence.maximum

    def _log_ahead(self, sequence: Sequence, position: _Position) -> None:
        ahead = position.last + LOG_AHEAD * sequence.increment
        room = LOG_AHEAD
        if not sequence.minimum <= ahead <= sequence.maximum:
            ahead, room = position.last, 0
        # First the log, which may refuse: every returned value needs a record.
        self.last_logged_lsn = self._log({state_key(sequence.storage_id): encode_state(ahead, True)})
        position.logged = room


def _exhausted_error(sequence: Sequence) -> SqlError:
    bound = "maximum" if sequence.increment > 0 else "minimum"
    value = sequence.maximum if sequence.increment > 0 else sequence.minimum
    return SqlError("2200H", f'nextval: reached {bound} value of sequence "{sequence.name}" ({value})')
