"""A node: what all its sessions share.

node.py                 `Node` itself: the store, the committed catalog, locks, sequences, the commit queue, the
                        register of sessions. shoal/serve.py makes it
interface.py            what a node knows of its sessions
plan_cache.py           plans by text, one cache for each combination of settings
tablespaces.py          the tablespaces that a node has open
affected_tablespaces.py    which tablespaces a relation or a schema change concerns
advisory_space.py       advisory locks of all sessions;  listeners.py  who listens to which channel
exported_snapshots.py   snapshots that several sessions read with;  old_snapshots.py  what they hold in memory
stages.py               rows that several sessions hand in for one transaction;  lease.py  what is kept for a while
system_cache.py         what is kept of the content of pg_catalog
sizes.py                how large tables and databases are
backups.py              backups that are being made, and databases that are made out of one
"""
