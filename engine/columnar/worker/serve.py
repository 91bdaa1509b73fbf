"""The worker's server: reads frames, and updates tables and runs queries. __main__.py describes the protocol."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from catalog.errors import SqlError
from catalog.type_descriptions import learn
from catalog.types.base import TypeRef
from engine.columnar import frames
from engine.columnar.frames import Buffer, Header, Pairs
from engine.columnar.interface import UdfSignature
from engine.columnar.worker import calls, memory, udf
from engine.columnar.worker.columns_file import Saving, is_damage
from engine.columnar.worker.database import is_fatal, open_with_columns, pinned_cursor
from engine.columnar.worker.drafts import DraftTable, DraftTables
from engine.columnar.worker.held_table import read_run
from engine.columnar.worker.progress import APPLYING, SAVING, WorkProgress
from engine.columnar.worker.query import (
    Interrupter,
    Query,
    Slots,
    as_sql_error,
    canceled_error,
    close_cursor,
    error_header,
)
from engine.columnar.worker.room import Room
from engine.columnar.worker.tables import ArrayUse, Tables
from engine.execute.user_aggregates import BuiltInSteps
from engine.storage.columns import ShapedArray

RUNNING_QUERIES = 4
_LOADS = ("load", "apply", "run", "draft_rows")

Frame = tuple[Header, list[memoryview]]


class Server:
    def __init__(self, connection: socket.socket, room: Room, threads: int) -> None:
        self._socket = connection
        self._send_lock = threading.Lock()
        self._memory_limit = memory_limit = room.memory_limit
        self._interrupter = Interrupter()
        self._watch = memory.Watch(memory_limit, self._is_busy, lambda: self._taken, self._end_newest, self._leave)
        self._applying = False
        self._taken = 0  # frames of work received
        self._database, self._file = open_with_columns(room, threads)
        self._progress = WorkProgress(lambda header: self._send(header, ()))
        self._tables = Tables(self._database, self._need, self._file.tables, self._progress, self._file.check_room)
        self._drafts = DraftTables(self._database, self._file.check_room, self._progress)
        self._saving = Saving(room.save_after)
        self._functions: set[str] = set()
        self._work: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._slots = Slots(RUNNING_QUERIES)
        self._queries: dict[int, Query] = {}
        self._cancelled: set[int] = set()  # queries cancelled before the applier had started them
        self._newest = 0  # the last query that the applier has started
        self._queries_lock = threading.Lock()
        self._operations: dict[str, Callable[[Header, list[memoryview]], None]] = {
            "load": self._load,
            "describe": self._describe,
            "apply": self._apply,
            "run": self._apply_run,
            "draft": self._begin_draft,
            "draft_rows": self._grow_draft,
            "draft_discard": self._discard_draft,
            "drop": self._drop,
            "save": self._save,
            "virtual": self._virtual,
            "forget": self._forget,
            "query": self._query,
        }

    # ---- the socket ---------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Reads frames until the socket ends, and dispatches them."""
        threading.Thread(target=self._apply_all, name="applier", daemon=True).start()
        self._watch.start()
        watchers = [os.getpid(), self._watch.thread, self._interrupter.thread]
        self._send({"op": "ready", "watchers": watchers, "tables": self._tables.storage_ids}, ())
        while True:
            fixed = self._receive(frames.FIXED.size)
            if fixed is None:
                return
            header_size, body_size = frames.sizes_of(fixed)
            header = self._receive(header_size)
            body = self._receive(body_size)
            if header is None or body is None:
                return
            self._dispatch(*frames.decode(header, body))

    def _receive(self, size: int) -> bytearray | None:
        data = bytearray(size)
        view = memoryview(data)
        while view.nbytes:
            count = self._socket.recv_into(view)
            if count == 0:
                return None
            view = view[count:]
        return data

    def _send(self, header: Header, buffers: Sequence[Buffer]) -> None:
        pieces = frames.encode(header, buffers)
        with self._send_lock:
            for piece in pieces:
                self._socket.sendall(piece)

    def _dispatch(self, header: Header, buffers: list[memoryview]) -> None:
        operation = header["op"]
        if operation == "hear":
            self._send({"op": "alive", "id": header["id"]}, ())
            return
        self._taken += 1
        if operation == "cancel":
            self._cancel(header["id"])
        elif operation == "credit":
            with self._queries_lock:
                query = self._queries.get(header["id"])
            if query is not None:
                query.give_credit(header["bytes"])
        else:
            self._work.put((header, buffers))

    def _cancel(self, identifier: int) -> None:
        with self._queries_lock:
            query = self._queries.get(identifier)
            if query is None and identifier > self._newest:
                self._cancelled.add(identifier)
        if query is not None:
            self._interrupter.cancel(query)

    # ---- the applier --------------------------------------------------------------------------------------------

    def _apply_all(self) -> None:
        try:
            while True:
                try:
                    header, buffers = self._work.get(timeout=self._saving.seconds_left())
                except queue.Empty:
                    header, buffers = {"op": "save"}, []
                self._applying = True
                calls.loading = header["op"] in _LOADS
                self._operations[str(header["op"])](header, buffers)
                calls.loading = False
                if self._saving.seconds_left() == 0:
                    self._save({}, [])
                self._applying = False
                header, buffers = {}, []  # frees the frame's memory while the applier waits for the next one
        except BaseException:  # without the applier no frame would be answered; the engine starts another worker
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    # ---- memory (memory.py) --------------------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return self._applying or bool(self._queries) or not self._work.empty()

    def _end_newest(self) -> bool:
        """Ends the newest query that is not being ended yet, with 53200. False if there is none."""
        with self._queries_lock:
            query = next((query for query in reversed(self._queries.values()) if not query.stopped), None)
        if query is None:
            return False
        query.found_no_memory = True
        self._interrupter.cancel(query)
        return True

    def _leave(self, why: str, message: str = "") -> None:
        """Sends the engine the reason, and ends the process."""
        try:
            self._send({"op": why, "bytes": memory.resident(), "message": message}, ())
        finally:
            os._exit(1)

    # ---- tables ---------------------------------------------------------------------------------------------------

    def _load(self, header: Header, buffers: list[memoryview]) -> None:
        description: Any = header["table"]
        empty_at: Any = header["empty_at"]
        durable: Any = header["durable"]
        self._slots.join()
        began = time.monotonic()
        try:
            lsn, built = self._tables.load(description, str(header["path"]), str(header["token"]), durable, empty_at)
        except Exception as error:
            self._lose(description["storage_id"], error)
            return
        finally:
            self._progress.end()
        self._saving.note_change()
        loaded = {"storage_id": description["storage_id"], "lsn": lsn, "built": built}
        self._send({"op": "loaded", **loaded, "seconds": time.monotonic() - began, **self._memory()}, ())

    def _describe(self, header: Header, buffers: list[memoryview]) -> None:
        description: Any = header["table"]
        try:
            self._tables.describe_again(description)
        except Exception as error:
            self._lose(description["storage_id"], error)
        self._saving.note_change()

    def _apply(self, header: Header, buffers: list[memoryview]) -> None:
        storage_id: Any = header["storage_id"]
        try:
            self._tables.apply(storage_id, Pairs.from_buffers(buffers))
            self._note_reached(header)
        except Exception as error:
            self._lose(storage_id, error)
        self._send({"op": "applied", "bytes": sum(buffer.nbytes for buffer in buffers)}, ())

    def _apply_run(self, header: Header, buffers: list[memoryview]) -> None:
        storage_id, path = header["storage_id"], header["path"]
        self._slots.join()
        self._progress.begin(APPLYING, storage_id)
        try:
            draft = self._drafts.take(header["draft"])
            if draft is None or not self._adopt(storage_id, draft):
                self._progress.begin(APPLYING, storage_id)  # counts anew, without the draft's rows
                self._tables.apply_all(storage_id, read_run(path, storage_id))
            self._note_reached(header)
        except Exception as error:
            self._lose(storage_id, error)
        finally:
            self._progress.end()
            os.unlink(path)

    def _adopt(self, storage_id: int, draft: DraftTable) -> bool:
        """Completes a draft and moves its rows into the table. False if the run has to be applied from its file."""
        try:
            self._drafts.finish(draft)
            return self._tables.adopt(storage_id, draft)
        except ShapedArray:
            return False
        finally:
            self._drafts.drop(draft)

    # ---- drafts (drafts.py) -----------------------------------------------------------------------------------------

    def _begin_draft(self, header: Header, buffers: list[memoryview]) -> None:
        try:
            self._drafts.begin(header["draft"], header["table"], str(header["path"]))
        except Exception as error:
            self._lose_draft(header["draft"], error)

    def _grow_draft(self, header: Header, buffers: list[memoryview]) -> None:
        number: Any = header["draft"]
        upto, rows = header["upto"], header["rows"]
        self._slots.join()
        try:
            grown = self._drafts.grow(number, upto, rows)
        except Exception as error:
            self._lose_draft(number, error)
            return
        self._saving.note_change()
        if grown is not None:
            self._send({"op": "draft_grown", "draft": number, "rows": grown}, ())

    def _lose_draft(self, number: int, error: Exception) -> None:
        """Drops a draft that has failed, and reports it. The run's file stays, because the engine may already have
        sent the frame that applies it."""
        self._leave_if_broken(error)
        draft = self._drafts.take(number)
        if draft is not None:
            self._drafts.drop(draft)
            self._saving.note_change()  # the draft's rows take room in the file until the next save
        self._send({"op": "draft_lost", "draft": number, "message": as_sql_error(error).message}, ())

    def _discard_draft(self, header: Header, buffers: list[memoryview]) -> None:
        draft = self._drafts.take(header["draft"])
        if draft is not None:
            self._drafts.drop(draft)
            self._saving.note_change()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(str(header["path"]))

    def _note_reached(self, header: Header) -> None:
        self._saving.note_change()
        lsn: Any = header.get("reached")
        if lsn is not None:
            storage_id: Any = header["storage_id"]
            self._tables.note_reached(storage_id, lsn)

    def _save(self, header: Header, buffers: list[memoryview]) -> None:
        saved = self._tables.tables_to_save()
        began = time.monotonic()
        self._progress.begin(SAVING)
        try:
            self._file.save(saved)
            sizes = self._file.sizes()
        except Exception as error:
            self._leave_if_broken(error)
            if self._file.is_displaced() and not self._queries:
                self._leave("displaced", str(error))
            self._saving.note_failure()
            self._send({"op": "unsaved", "id": header.get("id"), "message": str(error)}, ())
            return
        finally:
            self._progress.end()
        self._saving.note_saved()
        told = [[table.storage_id, table.lsn, *sizes[table.storage_id]] for table in saved]
        seconds = time.monotonic() - began
        self._send({"op": "saved", "id": header.get("id"), "tables": told, "seconds": seconds, **self._memory()}, ())

    def _memory(self) -> Header:
        """Returns the memory of the tables, for a frame's header."""
        return {"memory": self._file.memory_bytes()}

    def _leave_if_broken(self, error: Exception) -> None:
        """Ends the process if the database accepts no more statements, or if its file is damaged. Removes a damaged
        file; so the next worker begins with the saved tables or with an empty file."""
        if is_damage(error):
            self._file.remove()
        if is_damage(error) or is_fatal(error):
            self._leave("broken", str(error))

    def _lose(self, storage_id: int, error: Exception) -> None:
        self._leave_if_broken(error)
        known = as_sql_error(error)
        self._tables.lose(storage_id, known)
        self._saving.note_change()  # the table's rows take room in the file until the next save
        self._send({**error_header(0, known), "op": "lost", "storage_id": storage_id}, ())

    def _drop(self, header: Header, buffers: list[memoryview]) -> None:
        self._tables.drop(header["storage_id"])
        self._saving.note_change()

    def _virtual(self, header: Header, buffers: list[memoryview]) -> None:
        name = header["name"]
        self._database.register("content", _read_ipc(buffers[0]))
        self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM content")
        self._database.unregister("content")

    def _forget(self, header: Header, buffers: list[memoryview]) -> None:
        self._database.execute(f"DROP TABLE {header['name']}")

    # ---- queries ------------------------------------------------------------------------------------------------

    def _query(self, header: Header, buffers: list[memoryview]) -> None:
        identifier: int = header["id"]
        cursor = None
        signatures: Any = header["functions"]
        try:
            learn(header["types"])
            arrays: Any = header["arrays"]
            use = ArrayUse(bool(header["whole"]), arrays)
            self._tables.check(header["tables"], use)
            for fields in signatures:
                self._need(signature_of(fields))
            cursor = pinned_cursor(self._database)
            if use.whole:
                for storage_id in arrays:
                    self._tables.whole_view(cursor, storage_id)
            self._hand_over(header, buffers, cursor, use)
            query = Query(header, cursor, self._send, self._slots, self._file.remove)
            thread = threading.Thread(target=self._run, args=(query,), name=f"query {identifier}", daemon=True)
            with self._queries_lock:
                self._newest = identifier
                if identifier in self._cancelled:
                    raise canceled_error()
                self._queries[identifier] = query
                under_way = len(self._queries)
            _start(thread, under_way, self._memory_limit)
        except Exception as error:
            with self._queries_lock:
                self._newest = identifier
                self._cancelled.discard(identifier)
                self._queries.pop(identifier, None)
                crowded = bool(self._queries)
            if cursor is not None:
                close_cursor(cursor)
            self._send({**error_header(identifier, error), "crowded": crowded, "opened": False}, ())
            return

    def _run(self, query: Query) -> None:
        query.run()
        with self._queries_lock:
            self._queries.pop(query.identifier, None)

    def _hand_over(self, header: Header, buffers: list[memoryview], cursor: Any, use: ArrayUse) -> None:
        """Creates the overlays and virtual tables that only this query sees. An overlay has five buffers, a virtual
        table has one.

        An overlay consists of a storage id, the files of the transaction's own bulk runs, oldest first, and the pairs
        in its buffers, which are newer than the files.
        """
        position = 0
        overlays: Any = header["overlays"]
        for storage_id, paths in overlays:
            parts = [pairs for path in paths for pairs in read_run(path, storage_id)]
            parts.append(Pairs.from_buffers(buffers[position : position + 5]))
            self._tables.overlay(cursor, storage_id, parts, use)
            position += 5
        own: Any = header["virtual"]
        for name in own:
            cursor.register(name, _read_ipc(buffers[position]))
            position += 1

    def _need(self, signature: UdfSignature) -> None:
        """Registers the function in DuckDB if it is not registered yet."""
        if signature.name not in self._functions:
            udf.register(self._database, signature)
            self._functions.add(signature.name)


def _start(thread: threading.Thread, under_way: int, memory_limit: int) -> None:
    """Starts the thread. Raises 53200 if the limit on the worker's memory leaves no room for it: a query that would
    only wait for a slot may not take the memory that running queries need.
    """
    try:
        if under_way <= RUNNING_QUERIES or memory.has_room(memory_limit, under_way):
            thread.start()
            return
    except RuntimeError:
        pass
    raise SqlError(
        "53200", "out of memory", detail="Too many analytic queries are under way at once.",
        hint="Wait until some have ended, or set columnar_memory higher.",
    )  # fmt: skip


def signature_of(fields: Any) -> UdfSignature:
    """Returns a UDF signature from its JSON form (dataclasses.asdict)."""
    return UdfSignature(
        **{
            **fields,
            "argument_types": tuple(TypeRef(**reference) for reference in fields["argument_types"]),
            "argument_duckdb": tuple(fields["argument_duckdb"]),
            "result_type": TypeRef(**fields["result_type"]),
            "result_fields": tuple(TypeRef(**reference) for reference in fields["result_fields"]),
            "steps": None if fields["steps"] is None else BuiltInSteps(**fields["steps"]),
        }
    )


def _read_ipc(buffer: memoryview) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(buffer)).read_all()
