"""Checkpoints as open files: the exact state of a tablespace at one LSN, in Parquet that any reader understands.

    interface.py    what is needed of others: a store of files, the changelog's word about an LSN
    write.py        write_checkpoint: from a running tablespace, ranges without a change taken over
    capture.py      reading a tablespace as of one LSN in a thread, in key order
    exact.py        stored rows <-> open columns, exact in every bit;   open_types.py  how types look there
    ranges.py       where tables are cut;   range_files.py  the files of a range;   system.py  the catalog's file
    manifest.py     what belongs to a checkpoint, and what may be deleted
    digest.py       the digest of a tablespace at one LSN: equal on every replica, or one of them is wrong
    read.py         read_checkpoint into an empty directory, verify_checkpoint

docs/checkpoints.md describes the files for those who read them with other tools.
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
