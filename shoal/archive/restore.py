"""Restores a data directory as of an LSN or a time from a store of backups.

    DIR.restoring/restoring.json    the target: after an interruption the same command continues
    DIR.restoring/...               the checkpoint before the target, then the log after it
    DIR                             the same folder, when it is complete and durable

`fill` makes a directory that is only read, and then deleted, to restore a database from it.

Everything is verified. A restored database is a new one: pg_default gets a new id, so that neither the cluster nor the
backups of the old one recognise it.

Several tablespaces are restored to one moment: pg_default to the LSN, each other one to the commits up to then, and a
transaction over several is in all of them or in none. The catalog in pg_default has the tablespaces of that moment:
later ones are left out, and a missing one is an error.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from catalog.errors import SqlError
from catalog.rows import SYSTEM_TABLES, decode
from catalog.schema import Tablespace
from engine.checkpoint import Manifest, Progress, read_checkpoint
from engine.past.replay import replay
from engine.storage.checkpoint import Checkpoint
from engine.storage.joints import whole
from engine.storage.keys import prefix_range, storage_prefix
from engine.storage.views import Generation
from replication.commit_parts import Parts
from shoal.archive.archived_log import ArchivedEntry
from shoal.archive.contents import ArchivedTablespace, BackupContents, last_reachable_lsn, stored_bytes
from shoal.archive.layout import BackupRecord, PieceName, TablespaceRecord

RESTORING = ".restoring"
PLAN = "restoring.json"
SPACES = "tablespaces"
FIRST = "pg_default"


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The target of a restore: an LSN of pg_default, or a time (microseconds since 2000-01-01 UTC), or without either
    the end of the newest backup."""

    lsn: int | None = None
    time: int | None = None


@dataclass(slots=True)
class TablespacePlan:
    """The plan to restore a tablespace: a checkpoint, and the log after it up to `lsn`."""

    archived: ArchivedTablespace
    name: str
    manifest: Manifest
    pieces: Sequence[PieceName]
    lsn: int
    time: int = 0  # commit time of the entry there; 0: not known
    joints: list[tuple[int, Parts]] = field(default_factory=list)  # of the log behind the checkpoint, beyond `lsn` too
    unreachable_error: SqlError | None = None  # why it cannot be had as of that moment, if it was there then

    @property
    def tablespace(self) -> str:
        return self.archived.tablespace

    def entries(self, after: int, upto: int) -> AsyncIterator[ArchivedEntry]:
        known = self.manifest.entry_hash if after == self.manifest.lsn else ""
        return self.archived.entries(self.pieces, after, upto, known)


RestoreProgress = Callable[[str, int, int], None]
"""Called with (the present step, the amount that is done, the total amount)."""


async def plan_restore(found: BackupContents, target: RestoreTarget) -> list[TablespacePlan]:
    """The plans of all tablespaces, pg_default first. Raises 22023 for a target that cannot be reached, with the
    possible ones, and XX001 for damage."""
    record = _find_record(found, target)
    first = await _plan_first(found, record.spaces[0], target)
    if target.lsn is None and target.time is None:
        return [first, *[await _plan_end(found, space) for space in record.spaces[1:]]]
    others = [await _plan_other(found, space, first.time) for space in record.spaces[1:]]
    others += [_plan_dropped(item) for item in await _plan_dropped_before(found, record, first.time)]
    _align_ends([first, *(item for item in others if item.unreachable_error is None)])
    return [first, *others]


async def _plan_end(found: BackupContents, space: TablespaceRecord) -> TablespacePlan:
    """A tablespace as of the end of its backup."""
    known = await _read_archive(found, space.tablespace)
    below = [item for item in known.checkpoints if item.lsn <= space.lsn]
    return TablespacePlan(known.archived, space.name, below[-1], known.pieces, space.lsn, space.time)


async def _plan_other(found: BackupContents, space: TablespaceRecord, time: int) -> TablespacePlan:
    """A tablespace other than pg_default as of a time, at which it may not have existed yet."""
    known = await _read_archive(found, space.tablespace)
    try:
        return await _plan_space(found, space, time, known)
    except SqlError as error:
        if error.sqlstate != "22023":
            raise
        return TablespacePlan(
            known.archived, space.name, known.checkpoints[0], known.pieces, 0, unreachable_error=error
        )


async def _plan_dropped_before(found: BackupContents, record: BackupRecord, time: int) -> list[TablespacePlan]:
    """The tablespaces of the backup before this one that this one no longer has."""
    place = found.records.index(record)
    if not place:
        return []
    there = {space.tablespace for space in record.spaces}
    gone = [space for space in found.records[place - 1].spaces if space.tablespace not in there]
    return [await _plan_other(found, space, time) for space in gone]


def _plan_dropped(item: TablespacePlan) -> TablespacePlan:
    """The plan for a tablespace that was dropped before its changelog was archived."""
    if item.unreachable_error is None:
        message = f'tablespace "{item.name}" was dropped soon after that, and no backup has its changelog up to then'
        item.unreachable_error = SqlError("22023", message, hint=describe_reachable([item.manifest], item.pieces))
    return item


def _find_record(found: BackupContents, target: RestoreTarget) -> BackupRecord:
    """The oldest backup that reaches the target, or the newest one."""
    if not found.records:
        raise SqlError("22023", f"{found.store.url} holds no complete backup")
    if target.lsn is not None:
        for record in found.records:
            if record.spaces[0].lsn >= target.lsn:
                return record
    if target.time is not None:
        for record in found.records:
            if record.spaces[0].time >= target.time:
                return record
    return found.records[-1]


@dataclass(frozen=True, slots=True)
class _Archive:
    archived: ArchivedTablespace
    checkpoints: Sequence[Manifest]
    pieces: Sequence[PieceName]


async def _read_archive(found: BackupContents, tablespace: str) -> _Archive:
    archived = ArchivedTablespace(found.store, tablespace)
    manifests = [await archived.manifest(lsn) for lsn in await archived.checkpoints()]
    return _Archive(archived, manifests, await archived.pieces())


async def _plan_first(found: BackupContents, space: TablespaceRecord, target: RestoreTarget) -> TablespacePlan:
    known = await _read_archive(found, space.tablespace)
    if target.lsn is not None:
        below = [
            item for item in known.checkpoints if item.lsn <= target.lsn <= last_reachable_lsn(known.pieces, item.lsn)
        ]
        if not below:
            raise SqlError(
                "22023",
                f"LSN {target.lsn} cannot be restored",
                hint=describe_reachable(known.checkpoints, known.pieces),
            )
        made = TablespacePlan(known.archived, space.name, below[-1], known.pieces, target.lsn, below[-1].commit_time)
        async for entry in made.entries(max(target.lsn - 1, made.manifest.lsn), target.lsn):
            made.time = entry.commit_time
        return made
    if target.time is not None:
        return await _plan_space(found, space, target.time, known)
    return await _plan_end(found, space)


async def _plan_space(found: BackupContents, space: TablespaceRecord, time: int, known: _Archive) -> TablespacePlan:
    """A tablespace as of a time: everything before the first entry that was committed later."""
    below = [item for item in known.checkpoints if item.commit_time <= time]
    if not below:
        what = "" if space.name == FIRST else f' of tablespace "{space.name}"'
        hint = describe_reachable(known.checkpoints, known.pieces) if space.name == FIRST else ""
        raise SqlError("22023", f"no backup{what} is as old as that", hint=hint)
    manifest = below[-1]
    made = TablespacePlan(known.archived, space.name, manifest, known.pieces, manifest.lsn, manifest.commit_time)
    later = False
    async for entry in made.entries(manifest.lsn, last_reachable_lsn(known.pieces, manifest.lsn)):
        if entry.parts:
            made.joints.append((entry.lsn, entry.parts))
        if entry.commit_time > time:
            later = True
        if not later:
            made.lsn, made.time = entry.lsn, entry.commit_time
        elif not entry.parts and entry.commit_time > time + JOINT_REACH:
            break
    end = max([manifest.lsn, *(item.lsn for item in known.checkpoints), *(piece.last for piece in known.pieces)])
    if not later and last_reachable_lsn(known.pieces, manifest.lsn) < end:
        message = f'tablespace "{space.name}" has no changelog of that time in the backups'
        raise SqlError("22023", message, hint=describe_reachable(known.checkpoints, known.pieces))
    if not later and space.name == FIRST and time > made.time + JOINT_REACH:
        _check_reached(found, made, time)
    return made


JOINT_REACH = 60_000_000
"""Microseconds beyond a time in which parts of transactions that were committed by then are looked for: clocks may have
been set back meanwhile."""


def _check_reached(found: BackupContents, made: TablespacePlan, time: int) -> None:
    """Raises 22023 for a time that is later than the newest backup."""
    if time > found.records[-1].created:
        raise SqlError(
            "22023", "the newest backup is older than that", hint=f"It reaches LSN {made.lsn}: leave out the time."
        )


def _align_ends(spaces: Sequence[TablespacePlan]) -> None:
    """Moves the ends of the other tablespaces so that every transaction over several is complete or absent."""
    joints = [{tablespace.hex(): lsn for tablespace, lsn in parts} for item in spaces[1:] for _, parts in item.joints]
    ends = whole({item.tablespace: item.lsn for item in spaces}, spaces[0].tablespace, joints)
    for item in spaces:
        item.lsn = ends[item.tablespace]
        if item.lsn < item.manifest.lsn:
            raise SqlError("22023", f'tablespace "{item.name}" has no checkpoint that is as old; choose a later LSN')


def describe_reachable(checkpoints: Iterable[Manifest], pieces: Sequence[PieceName]) -> str:
    """'These can be restored: LSN 1 to 90, 120 to 200.'"""
    spans: list[list[int]] = []
    for manifest in checkpoints:
        end = last_reachable_lsn(pieces, manifest.lsn)
        if spans and manifest.lsn <= spans[-1][1] + 1:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([manifest.lsn, end])
    shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in spans)
    return f"These can be restored: LSN {shown}."


# ---- doing it -------------------------------------------------------------------------------------------------------


async def restore_directory(spaces: Sequence[TablespacePlan], directory: str, progress: RestoreProgress) -> None:
    """Restores the plans into `directory`, which must not exist or be empty. After an interruption, the same call
    continues.

    Raises 55000 for a directory with content, or with an interrupted restore of another target, XX001 for damage;
    errors of the store pass through.
    """
    directory = os.path.abspath(directory)
    if os.path.lexists(directory) and not (os.path.isdir(directory) and not os.listdir(directory)):
        raise SqlError("55000", f'"{directory}" already exists: a restore never overwrites; choose another directory')
    work = directory + RESTORING
    _prepare_folder(work, {item.tablespace: item.lsn for item in spaces})
    await _restore_tablespaces(spaces, work, progress)
    await asyncio.to_thread(_assign_new_id, work, spaces[0].lsn)
    os.unlink(os.path.join(work, PLAN))
    if os.path.isdir(directory):
        os.rmdir(directory)
    os.rename(work, directory)
    fd = os.open(os.path.dirname(directory), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _prepare_folder(work: str, ends: Mapping[str, int]) -> None:
    """The folder of the restore, with its target. Raises 55000 for one with another target."""
    path = os.path.join(work, PLAN)
    wanted = orjson.dumps(ends, option=orjson.OPT_SORT_KEYS)
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() != wanted:
                raise SqlError("55000", f'"{work}" is an interrupted restore of something else: remove it first')
        return
    os.makedirs(work, 0o700, exist_ok=True)
    if os.listdir(work):
        raise SqlError("55000", f'"{work}" already exists: remove it first')
    with open(path, "wb") as file:
        file.write(wanted)


async def fill(spaces: Sequence[TablespacePlan], directory: str, progress: RestoreProgress) -> list[str]:
    """Restores the plans into a directory, under the tablespaces' own ids; returns the place of each, pg_default first.
    After an interruption, the same call continues; data of another plan are deleted. Raises XX001 for damage; errors of
    the store pass through."""
    path = os.path.join(directory, PLAN)
    wanted = orjson.dumps({item.tablespace: item.lsn for item in spaces}, option=orjson.OPT_SORT_KEYS)
    found = Path(path).read_bytes() if os.path.exists(path) else None
    if found != wanted:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        os.makedirs(directory, 0o700)
        Path(path).write_bytes(wanted)
    there = await _restore_tablespaces(spaces, directory, progress)
    return [_path_of(item, directory) for item in there]


async def _restore_tablespaces(
    spaces: Sequence[TablespacePlan], directory: str, progress: RestoreProgress
) -> list[TablespacePlan]:
    """Fills the directories of the tablespaces of the moment, and returns them. Raises 22023 if one is missing."""
    first, *others = spaces
    await _restore_tablespace(first, directory, progress)
    names = await asyncio.to_thread(_tablespaces, directory)
    planned = {item.tablespace: item for item in others}
    for identity, name in names.items():
        lacking = planned[identity].unreachable_error if identity in planned else None
        if identity not in planned or lacking is not None:
            reason = "no backup has its state at that moment" if lacking is None else lacking.message
            message = f'LSN {first.lsn} cannot be restored: tablespace "{name}" was there, and {reason}'
            raise SqlError("22023", message, hint=lacking.hint if lacking is not None else "")
    there = [first, *(item for item in others if item.tablespace in names)]
    for item in there[1:]:
        await _restore_tablespace(item, _path_of(item, directory), progress)
    return there


def _tablespaces(directory: str) -> dict[str, str]:
    """The tablespaces in the catalog of a directory, except pg_default: names by id."""
    low, high = prefix_range(storage_prefix(SYSTEM_TABLES[Tablespace]))
    tables = Checkpoint(os.path.join(directory, "rows"))
    try:
        rows = Generation(tables.environment, tables.rows, tables.flushed_lsn, {}).scan(low, high, False)
        found = [decode(key, value) for key, value in rows]
    finally:
        tables.close()
    return {item.identity: item.name for item in found if isinstance(item, Tablespace) and item.identity}


def _path_of(item: TablespacePlan, directory: str) -> str:
    """The path of a tablespace in a data directory."""
    return directory if item.name == FIRST else os.path.join(directory, SPACES, item.tablespace)


async def _restore_tablespace(item: TablespacePlan, path: str, progress: RestoreProgress) -> None:
    first = item.name == FIRST
    if not os.path.exists(os.path.join(path, "rows")):
        os.makedirs(path, 0o700, exist_ok=True)
        total = stored_bytes(item.manifest)
        label = f"checkpoint at LSN {item.manifest.lsn}" if first else f"{item.name}: checkpoint"

        def report(now: Progress) -> None:
            progress(label, now.bytes, total)

        await read_checkpoint(item.archived.store, item.tablespace, item.manifest, path, progress=report)
        progress(label, total, total)
    label = f"changelog to LSN {item.lsn}" if first else f"{item.name}: changelog"
    begin = item.manifest.lsn

    def on_applied(lsn: int) -> None:
        progress(label, lsn - begin, max(item.lsn - begin, 1))

    if item.lsn > begin:
        await replay(path, lambda after: item.entries(after, item.lsn), item.archived.fetch_bulk, on_applied)


def _assign_new_id(path: str, lsn: int) -> None:
    """Gives a tablespace a new id, and keeps only its rows."""
    tables = Checkpoint(os.path.join(path, "rows"))
    try:
        if tables.flushed_lsn != lsn:
            raise SqlError("XX000", f"the restore has reached LSN {tables.flushed_lsn} in place of {lsn}")
        tables.adopt(uuid.uuid4().bytes, lsn)
    finally:
        tables.close()
    shutil.rmtree(os.path.join(path, "replayed"), ignore_errors=True)
