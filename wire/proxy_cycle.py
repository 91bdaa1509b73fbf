"""The state of the cycle that a proxy forwards: the messages that one ReadyForQuery answers.

When the leader's connection breaks, this state decides the client's error (wire/session_proxy.py): whether something
was sent, whether all of it is kept and can be sent again, whether it may have committed.
"""

from __future__ import annotations

import asyncio
import re

from wire.client_core import Frame

KEPT_BYTES = 1 << 20  # of a cycle that may have to be sent again
_COMMITS = re.compile(rb"\bcommit\b|\bprepare\s+transaction\b|(?:^|;|\*/|--[^\n]*\n)\s*end\b", re.IGNORECASE)
_ROLLS_BACK = re.compile(rb"\s*(?:rollback|abort)\s*(?:work\b|transaction\b)?\s*;?\s*", re.IGNORECASE)

# Possible effects of a statement's text on the transaction.
COMMITS, ROLLS_BACK, OTHER = 1, 2, 4


def effects_of(sql: bytes) -> int:
    """The effects of a statement's text on the transaction. COMMITS for every text that might commit: in doubt the
    outcome is reported as unknown, but never wrongly."""
    if _COMMITS.search(sql):
        return COMMITS
    return ROLLS_BACK if _ROLLS_BACK.fullmatch(sql) else OTHER


class ProxyCycle:
    """The cycle that is being forwarded. `status` is the transaction status before it."""

    def __init__(self, status: str) -> None:
        self.status = status
        self.extended = False
        self.is_sent = False  # some of the client's messages
        self.complete = False  # the Query or Sync is sent, and no COPY data will follow
        self.copying = False
        self.copy_begun = asyncio.Event()  # or the cycle is over
        self.over = False  # the leader has answered all of it
        self.effects = 0  # of the executed statements
        self.has_answer = False  # the client has received a part of the answer
        self.has_completed = False  # a statement of it has ended
        self.quiet: asyncio.Future[bool] | None = None  # until the proxy's own Sync is answered: whether it succeeded
        self.quiet_failed = False
        self.messages: list[Frame] = []  # its messages, while they are small
        self.kept_bytes = 0

    def begin_copy(self) -> None:
        self.copying = True
        self.complete = False
        self.copy_begun.set()

    def end(self) -> None:
        """The leader has answered the whole cycle: nothing more of it is sent."""
        self.over = True
        self.copy_begun.set()
        if self.quiet is not None:
            self.quiet.set_result(False)
            self.quiet = None

    def keep(self, frame: Frame) -> None:
        self.kept_bytes += len(frame.data)
        if self.kept_bytes <= KEPT_BYTES:
            self.messages.append(frame)
        else:
            self.messages.clear()

    @property
    def is_repeatable(self) -> bool:
        """Whether all sent messages are kept, and the client has received no part of an answer."""
        return not self.has_answer and self.kept_bytes <= KEPT_BYTES

    @property
    def is_rollback(self) -> bool:
        """Whether it only ends the transaction without effect, and can run again elsewhere."""
        return self.effects == ROLLS_BACK and self.complete and self.is_repeatable

    @property
    def may_have_committed(self) -> bool:
        return bool(self.effects & COMMITS) or (self.status == "I" and self.complete)
