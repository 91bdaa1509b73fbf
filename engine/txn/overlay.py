"""A transaction's own rows over its snapshot."""

from __future__ import annotations

from collections.abc import Iterator


class Missing:
    """The value of a key that the transaction has not written."""


MISSING = Missing()


def overlay(
    base: Iterator[tuple[bytes, bytes]], top: Iterator[tuple[bytes, bytes | None]], reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Merges two key-ordered streams. The upper one wins for a key in both, and its None hides the key."""
    below = next(base, None)
    above = next(top, None)
    while below is not None or above is not None:
        if above is None or (below is not None and (below[0] > above[0] if reverse else below[0] < above[0])):
            assert below is not None
            yield below
            below = next(base, None)
            continue
        if below is not None and below[0] == above[0]:
            below = next(base, None)
        if above[1] is not None:
            yield above[0], above[1]
        above = next(top, None)
