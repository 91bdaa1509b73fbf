"""The replicated log of a tablespace on one node.

layout.py          where znodes and objects are, and how they are written
ledger_object.py   entries in an object
objects.py         which objects hold the log behind an LSN
follower.py        following: fetch, verify, apply
leader.py          one term as leader: group commit
committer.py       the multis of all tablespaces that this node leads
ledgers.py         the ledger list, retention
takeover.py        from candidate to leader
election.py        who should try, and when
presence.py        how far each replica is, and that it lives
replica.py         all of it for one tablespace: ReplicatedLog
"""

from replication.log.follower import Follower, Lag
from replication.log.interface import Leader, ReplicaEngine, Role
from replication.log.ledger_object import Position
from replication.log.settings import Clock, LogGoneError, LogSettings, SystemClock

__all__ = [
    "Clock",
    "Follower",
    "Lag",
    "Leader",
    "LogGoneError",
    "LogSettings",
    "Position",
    "ReplicaEngine",
    "Role",
    "SystemClock",
]
