"""What a relay knows of the cycle that is on its way: what one ReadyForQuery answers.

When the leader's connection breaks it decides what the client is told (wire/relay.py): whether something was sent,
whether all of it is kept and can be sent again, whether it may have committed.
"""

from __future__ import annotations

import asyncio
import re

from wire.client_core import Frame

KEPT_BYTES = 1 << 20  # of a cycle that may have to be sent again
_COMMITS = re.compile(rb"\bcommit\b|\bprepare\s+transaction\b|(?:^|;|\*/|--[^\n]*\n)\s*end\b", re.IGNORECASE)
_ROLLS_BACK = re.compile(rb"\s*(?:rollback|abort)\s*(?:work\b|transaction\b)?\s*;?\s*", re.IGNORECASE)

# What a statement's text may do to the transaction.
COMMITS, ROLLS_BACK, OTHER = 1, 2, 4


def effect(sql: bytes) -> int:
    """COMMITS for every text that might commit: a doubt makes an outcome unknown, never wrong."""
    if _COMMITS.search(sql):
        return COMMITS
    return ROLLS_BACK if _ROLLS_BACK.fullmatch(sql) else OTHER


class Cycle:
    """What is known of the cycle that is on its way. `status` is the transaction status before it."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.extended = False
        self.sent = False  # something of the client's
        self.complete = False  # the Query or Sync is sent, and no COPY data is to follow
        self.copying = False
        self.copy_begun = asyncio.Event()  # or the cycle is over
        self.over = False  # the leader has answered all of it
        self.effects = 0  # of what it executes
        self.answered = False  # the client has been sent something of the answer
        self.completed = False  # a statement of it has come to its end
        self.quiet: asyncio.Future[bool] | None = None  # until the relay's own Sync is answered: whether it went well
        self.quiet_failed = False
        self.kept: list[Frame] = []  # its messages, while they are small
        self.kept_bytes = 0

    def begin_copy(self) -> None:
        self.copying = True
        self.complete = False
        self.copy_begun.set()

    def end(self) -> None:
        """The leader has answered all of it: nothing more of the client's is to be sent."""
        self.over = True
        self.copy_begun.set()
        if self.quiet is not None:
            self.quiet.set_result(False)
            self.quiet = None

    def keep(self, frame: Frame) -> None:
        self.kept_bytes += len(frame.data)
        if self.kept_bytes <= KEPT_BYTES:
            self.kept.append(frame)
        else:
            self.kept.clear()

    @property
    def repeatable(self) -> bool:
        """Whether all that was sent is kept, and the client has seen nothing of an answer."""
        return not self.answered and self.kept_bytes <= KEPT_BYTES

    @property
    def is_rollback(self) -> bool:
        """Whether it does nothing but end the transaction without effect, and can be run again elsewhere."""
        return self.effects == ROLLS_BACK and self.complete and self.repeatable

    @property
    def may_have_committed(self) -> bool:
        return bool(self.effects & COMMITS) or (self.status == "I" and self.complete)
