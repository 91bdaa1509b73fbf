"""Positions and moments: LSNs of a node with several tablespaces.

Every tablespace counts its own LSNs, and has a *slot* on the node (pg_default has 0). So

    position   an int: slot << 48 | LSN. The place of one thing: a version that `newest` found, a commit to wait for.
               In pg_default it is the plain LSN
    Moment     one LSN in each tablespace, taken at one time: the visible state of a snapshot, or the durable state

and a position compares with a moment as its LSN does with the moment's LSN in the same tablespace. So code that
compares a result of `newest` with its snapshot, or a wait with the durable state, is the same for one tablespace, where
all of these are plain ints, and for several.

The parts of a commit over several tablespaces become durable together, so the position of any of them represents all.
"""

from __future__ import annotations

SLOT_SHIFT = 48
LSN_MASK = (1 << SLOT_SHIFT) - 1
MAX_SLOT = 0x7FFE
SEVERAL = 0x7FFF
"""The slot of positions that stand for several others (engine/txn/joint.py); no moment ever reaches one."""


class Moment:
    """One LSN in each tablespace. Immutable. In a tablespace that is younger than the moment the LSN is 0."""

    __slots__ = ("lsns",)

    def __init__(self, lsns: tuple[int, ...]) -> None:
        self.lsns = lsns
        """The LSN of each tablespace, by slot."""

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
"""An LSN of a node with one tablespace, or a Moment of a node with several."""


def position(slot: int, lsn: int) -> int:
    return slot << SLOT_SHIFT | lsn


def lsn_in(slot: int, at: Lsn) -> int:
    """The LSN in one tablespace of a moment, or of a plain LSN from the time of a single tablespace."""
    if isinstance(at, int):
        return at if slot == 0 else 0
    return at.of(slot)
