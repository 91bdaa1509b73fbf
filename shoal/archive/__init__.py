"""Backups: checkpoints and the changelog after them, in a store of objects of any kind (replication/stores).

layout.py         the objects of a store of backups, and the content of the small ones
archived_log.py   the archived changelog: unchanged entries, verified when they are read
contents.py       reads a store: backups, LSNs that can be restored; verifies all of it
backup.py         writes a backup of a running node
log_source.py     reads a running node's changelog: its own segments
ledger_log.py     reads it in a cluster: the ledgers in the cluster's store
restore.py        restores a data directory as of an LSN, or a time
compaction.py     makes a store of backups smaller
"""
