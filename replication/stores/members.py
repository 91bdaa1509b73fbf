"""The members of a quorum store in its URL: replacement and removal of a member.

    quorum(3,3,2):a,b,c            replaced c by d            quorum(3,3,2):a,b,d,-c
    quorum(3,3,2):a,b,c,d          drained c                  quorum(3,3,2):a,b,d,-c
    quorum(3,3,2):a,b,d,-c         completed                  quorum(3,3,2):a,b,d

A leaving member ('-') is read and not written, until the others hold its objects. A new member takes the place of the
old one, so that few objects have to move (replication/stores/member_order.py).
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from catalog.errors import SqlError

LEAVING = "-"
_QUORUM = re.compile(r"quorum\((\d{1,3}),(\d{1,3}),(\d{1,3})\):(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QuorumUrl:
    """quorum(E,W,A):... `active` and `leaving` are URLs, without the '-'."""

    ensemble: int
    write: int
    ack: int
    active: tuple[str, ...]
    leaving: tuple[str, ...] = ()

    def __str__(self) -> str:
        members = [*self.active, *(LEAVING + url for url in self.leaving)]
        return f"quorum({self.ensemble},{self.write},{self.ack}):{','.join(members)}"

    def with_member_replaced(self, old: str, new: str) -> QuorumUrl:
        """`new` instead of `old`, which leaves. Raises SqlError 22023, 55000."""
        self._check_active(old)
        if new in self.active or new in self.leaving:
            raise SqlError("22023", f"{new} is a member of {self} already")
        active = tuple(new if url == old else url for url in self.active)
        return dataclasses.replace(self, active=active, leaving=(old,))

    def with_member_leaving(self, old: str) -> QuorumUrl:
        """The URL in which `old` leaves. Raises SqlError 22023, 55000."""
        self._check_active(old)
        if len(self.active) <= self.ensemble:
            raise SqlError(
                "22023",
                f"{self} needs {self.ensemble} members",
                hint="Replace the member by another one: shoal store replace OLD NEW.",
            )
        return dataclasses.replace(self, active=tuple(url for url in self.active if url != old), leaving=(old,))

    def without_leaving(self) -> QuorumUrl:
        """The URL without the members that leave."""
        return dataclasses.replace(self, leaving=())

    def _check_active(self, old: str) -> None:
        if self.leaving:
            raise SqlError("55000", f"{self.leaving[0]} is still being emptied", hint="One member leaves at a time.")
        if old not in self.active:
            raise SqlError("22023", f"{old} is not a member of {self}")


def parse_quorum(url: str) -> QuorumUrl | None:
    """None for the URL of another kind of store. Members are not checked."""
    match = _QUORUM.fullmatch(url)
    if match is None:
        return None
    members = [member.strip() for member in match[4].split(",")]
    return QuorumUrl(
        int(match[1]),
        int(match[2]),
        int(match[3]),
        tuple(member for member in members if not member.startswith(LEAVING)),
        tuple(member.removeprefix(LEAVING) for member in members if member.startswith(LEAVING)),
    )
