"""Memtable, LMDB, bulk runs, flush and recovery. Only this package imports lmdb.

    interface.py      the changelog as the engine needs it, and storage as the rest of the engine needs it
    tablespace.py     one changelog, one LMDB environment, and the memtables between them
    layered_reads.py  reads of a tablespace through its layers: the base class of `Tablespace`
    stores.py, moments.py, joints.py    several tablespaces: routing, LSNs, commits over several of them
    directory_lock.py        the lock of a data directory
    directories.py    directories of tablespaces;  unwritable.py  a changelog that accepts no commits
    edits.py          the changes of one commit, as the body of a changelog entry
    keys.py, rows.py, row_batches.py, columns.py, arrays.py    stored forms: keys, one row, many rows, columns
    memtable.py, views.py, merging.py    committed versions in memory; reads through all layers
    checkpoint.py, flush.py, lmdb_writer.py    LMDB; the thread that writes into it; the process for large layers
    runs.py, newest.py    bulk runs; the newest state of a whole table
    readonly.py, leaves.py    reads of LMDB in another process; leaf pages as columns
    branch_storage.py        branches: storage ids that share the parent's rows
    pages.py    sizes of ranges;  space.py, holes.py    free space for the file system
    examination.py    checks of a stopped server's directory

**Keys**: the storage id (4 bytes, big-endian), then the key columns in bytes that keep their order
(`SqlType.key_encoder`), at most 511 bytes. A hash replaces the tail of a longer key, and the row holds all columns in
full. A table's rows are stored under its primary key, or under a hidden row number of 8 bytes. An index entry is stored
under the index's storage id: each column as 0x01 and the value, or 0x02 for NULL, so NULLs sort last; then the row's
key without its storage id, unless the index is unique and no column is NULL. The entry's value is the row's key without
its storage id.

**Rows**: the version of the layout (u16), a bitmap of NULLs, fixed columns, u32 end offsets of the variable columns,
the heap; little-endian, no padding. One `struct.unpack_from` decodes a row, NumPy decodes a million. Every column is in
the row, key columns too.

**Memtable over LMDB**: committed changes live in memory as versions with their LSN. A flush writes the newest versions
into LMDB in one synced transaction, which also records the LSN that is reached.

**Bulk runs**: COPY and large changes write sorted runs of keys and values to a file, whole columns at a time. The
commit entry refers to the file. Reads use committed runs until a flush has merged them into LMDB.

**Changelog**: replication/local.py: segment files, entries with CRC32C and a chain of hashes, appends in groups, one
sync for each group.
"""
