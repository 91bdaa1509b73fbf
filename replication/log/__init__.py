"""The replicated log of a tablespace on one node.

layout.py          places and encoding of znodes and objects
ledger_object.py   entries in an object
objects.py         finds the objects of the log after an LSN
follower.py        following: fetch, verify, apply
leader.py          one term as leader: group commit
committer.py       the multis of all tablespaces that this node leads
ledgers.py         the ledger list, retention;  ledger_list.py  the list in ZooKeeper
takeover.py        from candidate to leader
election.py        decides when a node tries to lead
presence.py        reports of live replicas
remote_apply.py    waits until the other replicas have applied an LSN
ledger_retention.py  closes and drops old ledgers
groups.py          commits between `submit` and the head;  bulk.py  the bulk files of a replica
lsn_waiters.py     waits for an LSN, and for a read that begins now
interface.py       the interfaces between log and engine;  settings.py  the settings
replica.py         all of it for one tablespace: ReplicatedLog
"""

from replication.log.bulk import BulkFiles
from replication.log.committer import Committer
from replication.log.follower import Follower, Lag
from replication.log.interface import Leader, ReplicaEngine, Role
from replication.log.leader import LeaderLog
from replication.log.ledger_object import Position
from replication.log.presence import Presence, put_ephemeral
from replication.log.replica import ReplicatedLog
from replication.log.settings import Clock, LogGoneError, LogSettings, StoreOf, SystemClock
from replication.log.takeover import create_tablespace, drop_tablespace, vacate

__all__ = [
    "BulkFiles",
    "Clock",
    "Committer",
    "Follower",
    "Lag",
    "Leader",
    "LeaderLog",
    "LogGoneError",
    "LogSettings",
    "Position",
    "Presence",
    "ReplicaEngine",
    "ReplicatedLog",
    "Role",
    "StoreOf",
    "SystemClock",
    "create_tablespace",
    "drop_tablespace",
    "put_ephemeral",
    "vacate",
]
