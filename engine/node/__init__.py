"""A node: the state that all its sessions share.

node.py                 `Node` itself: the store, the committed catalog, locks, sequences, the commit queue, the
                        register of sessions. shoal/serve.py makes it
interface.py            the interface of a session for the node
plan_cache.py           plans by text, one cache for each combination of settings
tablespaces.py          the open tablespaces of a node
affected_tablespaces.py    the tablespaces of a relation or a schema change
schema_of_snapshots.py  schema changes beside transactions whose snapshot is older
function_statistics.py  calls of functions, for pg_stat_user_functions
advisory_space.py       advisory locks of all sessions;  listeners.py  sessions by channel
exported_snapshots.py   snapshots that several sessions use;  old_snapshots.py  their memory
stages.py               staged rows of several sessions for one transaction;  lease.py  objects with a lifetime
system_cache.py         cached content of pg_catalog
transaction_numbers.py  numbers of transactions and their outcomes
sizes.py                sizes of tables and databases
backups.py              running backups, and databases that are restored from one
"""
