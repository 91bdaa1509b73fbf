"""Positions and moments: LSNs where a node has several tablespaces.

Every tablespace counts its own LSNs, and has a *slot* on the node (pg_default's is 0). So

    position   an int: slot << 48 | LSN. Where one thing stands: a version that `newest` found, a commit to wait for.
               In pg_default it is the plain LSN
    Moment     one LSN in each tablespace, taken at one time: what a snapshot sees, what is durable

and a position compares with a moment as its LSN does with the moment's LSN in the same tablespace. Code that compares
what `newest` gave with its snapshot, or what it waits for with what is durable, is therefore the same for one
tablespace, where all of these are plain ints, and for several.

The parts of a commit over several tablespaces become durable together, so the position of any of them stands for all.
"""

from __future__ import annotations

SLOT_SHIFT = 48
LSN_MASK = (1 << SLOT_SHIFT) - 1
MAX_SLOT = 0x7FFE
SEVERAL = 0x7FFF
"""The slot of positions that stand for several others (engine/txn/joint.py); no moment ever reaches one."""


class Moment:
    """See the module's text. Immutable. A tablespace that is younger than the moment is at LSN 0 in it."""

    __slots__ = ("lsns",)

    def __init__(self, lsns: tuple[int, ...]) -> None:
        self.lsns = lsns
        """By slot."""

    def of(self, slot: int) -> int:
        """The LSN in a tablespace."""
        return self.lsns[slot] if slot < len(self.lsns) else 0

    def __ge__(self, other: int | Moment) -> bool:
        """Whether a position, or everything of an earlier moment, has been reached."""
        if isinstance(other, int):
            return self.of(other >> SLOT_SHIFT) >= other & LSN_MASK
        return all(self.of(slot) >= lsn for slot, lsn in enumerate(other.lsns))

    def __lt__(self, other: int) -> bool:
        """Whether a position is later."""
        return self.of(other >> SLOT_SHIFT) < other & LSN_MASK

    def __le__(self, other: int | Moment) -> bool:
        return (Moment((other,)) if isinstance(other, int) else other) >= self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moment) and self.lsns == other.lsns

    def __hash__(self) -> int:
        return hash(self.lsns)

    def __repr__(self) -> str:
        return f"Moment({self.lsns})"


Lsn = int | Moment
"""What a node with one tablespace has as an LSN."""


def position(slot: int, lsn: int) -> int:
    return slot << SLOT_SHIFT | lsn


def lsn_in(slot: int, at: Lsn) -> int:
    """The LSN in one tablespace of a moment, or of what was one when there was only pg_default."""
    if isinstance(at, int):
        return at if slot == 0 else 0
    return at.of(slot)
