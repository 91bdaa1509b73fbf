"""Backups: checkpoints and the changelog behind them, in a store of objects of any kind (replication/stores).

layout.py       which objects there are, and what the small ones say
pieces.py       the archived changelog: entries as they were written, verified when they are read
contents.py     what a store holds: backups, how far back each LSN can be reached; verifying all of it
writing.py      a backup of a running node
logs.py         where a running node's changelog is read: its own segments
ledgers.py      the same in a cluster: the ledgers in the cluster's store
restoring.py    a data directory as of an LSN, or a time
compacting.py   makes a store of backups smaller
"""
