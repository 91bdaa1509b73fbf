"""The past: a database at an earlier LSN.

    manager.py    decides which past can be read, by LSN and by time
    nodes.py      the node object of a session that reads the past
    far.py        moments that memory no longer has: directories that are filled from a checkpoint and the changelog
    replay.py     applies changelog entries after a checkpoint to a directory

Memory keeps the recent past: `keep_from` in engine/storage/tablespace.py. For moments of several tablespaces see
`whole` in engine/storage/joints.py, and `KeptJoints` in engine/storage/stores.py. AS OF and SET as_of:
engine/statements/as_of.py. The past of a single node: shoal/history.py, and the holds of replication/local.py.
"""
