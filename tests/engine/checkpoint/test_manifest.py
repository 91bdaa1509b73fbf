"""The manifest's file, and what may be deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.errors import SqlError
from engine.checkpoint.manifest import (
    ColumnEntry,
    Manifest,
    RangeFile,
    StoredFile,
    TableEntry,
    decode,
    encode,
    folder_lsn,
    folder_name,
    leftovers,
    removable,
    table_folder,
)


def stored(name: str) -> StoredFile:
    return StoredFile(name, 10, "0000000a")


def manifest(lsn: int, *names: str) -> Manifest:
    files = tuple(
        RangeFile(stored(name), 5, 50, "", "00", "ff", "aa", stored(name + ".exact"), 2, (("d", 1),)) for name in names
    )
    columns = (ColumnEntry(1, "id", "integer", True),)
    table = TableEntry(16384, "postgres", "public", "t", 100, 1, "shape", columns, ("id",), "", "p", files)
    folder = folder_name(lsn)
    return Manifest(1, "00" * 16, lsn, "ab", 7, 8, folder, 0, stored(f"{folder}/catalog-1.json"), None, 0, (table,))


def test_a_manifest_reads_back_as_it_was() -> None:
    made = manifest(5, f"{folder_name(5)}/a", f"{folder_name(3)}/b")
    assert decode(encode(made)) == made
    assert decode(encode(replace(made, other=stored("x"), other_rows=3))).other == stored("x")
    assert made.table_rows() == 10 and made.total_bytes() == 50


def test_every_changed_byte_of_a_manifest_is_found() -> None:
    data = encode(manifest(5, "a"))
    for place in range(0, len(data) - 1, 7):
        changed = bytearray(data)
        changed[place] ^= 1
        try:
            assert decode(bytes(changed)) == manifest(5, "a"), place  # white space at most
        except SqlError as error:
            assert error.sqlstate == "XX001"


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(SqlError, match="format 2, this release reads up to 1"):
        decode(encode(replace(manifest(5), format=2)))


def test_files_that_a_newer_checkpoint_refers_to_stay() -> None:
    old, new = manifest(3, f"{folder_name(3)}/a", f"{folder_name(3)}/b"), manifest(5, f"{folder_name(3)}/b")
    assert removable([old], [new]) == [
        f"{folder_name(3)}/manifest.json", f"{folder_name(3)}/catalog-1.json", f"{folder_name(3)}/a",
        f"{folder_name(3)}/a.exact",
    ]  # fmt: skip
    newest = manifest(9, f"{folder_name(9)}/c")
    assert f"{folder_name(3)}/b" in removable([new], [newest])
    gone = removable([old, new], [newest])
    assert gone[:2] == [f"{folder_name(3)}/manifest.json", f"{folder_name(5)}/manifest.json"]
    assert len(gone) == len(set(gone)) == 2 + 2 + 4


def test_leftovers_are_unreferenced_files_in_old_folders() -> None:
    kept = manifest(5, f"{folder_name(3)}/b")
    names = [
        f"{folder_name(3)}/b", f"{folder_name(3)}/b.exact", f"{folder_name(3)}/x", f"{folder_name(5)}/manifest.json",
        f"{folder_name(5)}/catalog-1.json", f"{folder_name(5)}/y", f"{folder_name(6)}/being-written", "bulk/z",
    ]  # fmt: skip
    assert leftovers(names, [kept], 6) == [f"{folder_name(3)}/x", f"{folder_name(5)}/y"]


def test_names_are_safe() -> None:
    assert table_folder("postgres", "a.b", "Odd name/É", 7) == "postgres.a_b.Odd_name__-7"
    assert folder_lsn(folder_name(12) + "/x/y") == 12
    assert folder_lsn("bulk/x") is None and folder_lsn("checkpoint-1/x") is None
