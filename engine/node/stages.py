"""Stages: rows that several sessions send, and that one transaction then writes.

    driver     SELECT shoal_stage(3600)                                              -> token
    workers    COPY t (a, b) FROM STDIN (FORMAT arrow, STAGE 'token', PART '3.0')
    driver     COPY t (a, b) FROM 'stage:token/3.0,4.1' (FORMAT arrow)
    driver     SELECT shoal_drop_stage('token')

A part is one attempt of one worker. Its data are checked against the table's columns as they arrive, and kept unchanged
in a file without a name; they are invisible. The driver names the parts that count, so rows of a repeated attempt, or
of two attempts at the same time, are written once. Defaults, constraints, indexes and privileges apply as in any COPY,
at that moment. Staging a part is not part of a transaction.

A stage belongs to one role. It ends when it is dropped, when it is not used for its lifetime (the driver was killed),
and with the process: the kernel deletes files without a name.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING

from catalog.errors import SqlError, file_error
from catalog.memory import Holding
from catalog.schema import Column, Table
from engine.bulk.copy_arrow import ArrowParser
from engine.bulk.load import PIECE_BYTES, Pieces
from engine.bulk.thread import BulkThread
from engine.node.lease import Lease

if TYPE_CHECKING:
    from engine.bulk.progress import CopySource
    from engine.node.interface import NodeSession

FILE_PREFIX = "stage:"
STAGES_OF_A_ROLE = 64


class _Stage:
    def __init__(self, user: str, seconds: int, at_end: Callable[[], None]) -> None:
        self.user = user
        self.parts: dict[str, IO[bytes]] = {}
        self.lease = Lease(seconds, at_end)

    def end(self) -> None:
        self.lease.end()
        for file in self.parts.values():
            file.close()
        self.parts.clear()


class Stages:
    """The stages of a node. `directory` returns the place of the files, on the disk of the data."""

    def __init__(self, directory: Callable[[], str]) -> None:
        self._directory = directory
        self._known: dict[str, _Stage] = {}

    def open(self, user: str, seconds: int) -> str:
        """The token of a new stage, which ends when it is not used for this many seconds. Raises 22023, 53400."""
        if sum(stage.user == user for stage in self._known.values()) >= STAGES_OF_A_ROLE:
            raise SqlError("53400", f"a role may have {STAGES_OF_A_ROLE} stages at once")
        token = secrets.token_hex(16)
        self._known[token] = _Stage(user, seconds, lambda: self._known.pop(token).end())
        return token

    def drop(self, user: str, token: str) -> bool:
        """Drops a stage. Returns whether it existed."""
        stage = self._known.get(token)
        if stage is None or stage.user != user:
            return False
        self._known.pop(token).end()
        return True

    def close(self) -> None:
        """The node stops."""
        while self._known:
            self._known.popitem()[1].end()

    def _find(self, user: str, token: str) -> _Stage:
        stage = self._known.get(token)
        if stage is None or stage.user != user:
            hint = "It was dropped, or it was not used for its lifetime, or the server was restarted. Create a new one."
            raise SqlError("42704", f'stage "{token}" does not exist', hint=hint)
        return stage

    async def put(
        self, session: NodeSession, table: Table, columns: Sequence[Column], where: tuple[str, str], source: CopySource
    ) -> int:
        """Stages the data of a part; `where`: token and part. Returns the number of rows. Raises 42704, 42710, 53100,
        and errors of the data."""
        token, part = where
        stage = self._find(session.user_name, token)
        if part in stage.parts:
            raise SqlError("42710", f'part "{part}" of the stage exists already')
        parser = ArrowParser(table, columns, session.key.format)
        held = Holding(session.memory)
        pieces = Pieces(source, parser.reader, held)
        thread = BulkThread("stage")
        file: IO[bytes] = tempfile.TemporaryFile(dir=self._directory())  # noqa: SIM115 - the stage's, or closed below
        count = 0
        try:
            with stage.lease.in_use():
                while data := await pieces.gather(PIECE_BYTES):
                    count += await thread.run(_take, parser, file, data)
                    held.owe(-len(data))
                await thread.run(file.flush)
            self._find(session.user_name, token).parts.setdefault(part, file)
        finally:
            if stage.parts.get(part) is not file:
                thread.at_end(file.close)
            thread.close()
        return count

    @contextmanager
    def source(self, session: NodeSession, name: str) -> Iterator[CopySource]:
        """The data of parts, by the name after 'stage:' in COPY. Raises 42704."""
        token, _, listed = name.partition("/")
        stage = self._find(session.user_name, token)
        files = []
        for part in filter(None, listed.split(",")):
            if part not in stage.parts:
                raise SqlError("42704", f'the stage has no part "{part}"')
            files.append(stage.parts[part])
        with stage.lease.in_use(), ExitStack() as opened:
            # Separate descriptors, because the stage may be dropped meanwhile.
            numbers = [os.dup(file.fileno()) for file in files]
            for number in numbers:
                opened.callback(os.close, number)
            yield _StagedSource(numbers)


def _take(parser: ArrowParser, file: IO[bytes], data: bytes) -> int:
    """In a thread: checks and stores a piece."""
    piece = parser.parse(data)
    if piece.error is not None:
        raise piece.error
    try:
        file.write(data)
    except OSError as error:
        raise file_error(error, "a staged part could not be written") from error
    return piece.rows.count


class _StagedSource:
    """An engine.bulk.progress.CopySource over files, one after the other."""

    def __init__(self, files: list[int]) -> None:
        self._files = files[::-1]
        self._position = 0

    async def read(self) -> bytes | None:
        while self._files:
            data = await asyncio.to_thread(os.pread, self._files[-1], PIECE_BYTES, self._position)
            if data:
                self._position += len(data)
                return data
            self._files.pop()
            self._position = 0
        return None
