"""The past: a database as it was at an LSN.

    manager.py    which past can be read, by LSN and by time
    nodes.py      what a session stands on that reads the past
    far.py        moments that memory does not keep any more: directories made of a checkpoint and the changelog
    replay.py     changelog entries behind a checkpoint, applied to a directory

What memory keeps: `keep_from` in engine/storage/tablespace.py. A moment of several tablespaces: `whole` in
engine/storage/joints.py, `KeptJoints` in engine/storage/stores.py. AS OF and SET as_of: engine/statements/as_of.py. The
past that a node alone keeps: shoal/history.py, and the holds of replication/local.py.
"""
