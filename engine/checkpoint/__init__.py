"""Checkpoints as open files: the exact state of a tablespace at one LSN, in Parquet that any reader understands.

    interface.py    the services that a checkpoint needs: a store of files, the changelog's data on an LSN
    write.py        write_checkpoint: writes a running tablespace; unchanged ranges are reused
    capture.py      reads a tablespace as of one LSN in a thread, in key order
    exact.py        converts stored rows to open columns and back, exact in every bit;   open_types.py  the types there
    ranges.py       the ranges of tables;   range_files.py  the files of a range;   system.py  the catalog's file
    manifest.py     the content of a checkpoint, and the files that may be deleted
    digest.py       the digest of a tablespace at one LSN, which is equal on every correct replica
    read.py         read_checkpoint into an empty directory, verify_checkpoint

docs/checkpoints.md describes the files for readers with other tools.
"""

from engine.checkpoint.interface import CheckpointFiles, Described, EntryMark, Progress
from engine.checkpoint.manifest import Manifest, leftovers, removable
from engine.checkpoint.read import (
    checkpoint_lsns,
    half_restored,
    read_checkpoint,
    read_manifest,
    verify_checkpoint,
)
from engine.checkpoint.write import Options, write_checkpoint

__all__ = [
    "CheckpointFiles",
    "Described",
    "EntryMark",
    "Manifest",
    "Options",
    "Progress",
    "checkpoint_lsns",
    "half_restored",
    "leftovers",
    "read_checkpoint",
    "read_manifest",
    "removable",
    "verify_checkpoint",
    "write_checkpoint",
]
