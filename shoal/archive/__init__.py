"""Backups: checkpoints and the changelog behind them, in a store of objects of any kind (replication/stores).

layout.py         the objects of a store of backups, and the content of the small ones
archived_log.py   the archived changelog: entries as they were written, verified when they are read
contents.py       reads what a store holds: backups, LSNs that can be reached; verifies all of it
backup.py         writes a backup of a running node
log_source.py     reads a running node's changelog: its own segments
ledger_log.py     reads it in a cluster: the ledgers in the cluster's store
restore.py        restores a data directory as of an LSN, or a time
compaction.py     makes a store of backups smaller
"""
