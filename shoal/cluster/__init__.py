"""A node's part in a cluster: what joins the engine with the replicated log.

member.py        all of it, from start to stop
membership.py    which cluster and node this directory belongs to; the session with ZooKeeper; its registration
adapter.py       the engine as the log sees it (`ReplicaEngine` in replication/log/interface.py), the log as the
                 engine sees it (`Replica` in engine/replica.py), the leader as the relay sees it (`Locator` in
                 wire/relay.py)
joining.py, founding.py    how a data directory becomes a replica: alone before, new, from a checkpoint
seeing.py        what it shows of the cluster, checks, checkpoints on request
controller.py    replicas and leaders are where they should be: one node's office (replication/placement.py decides)
mending.py       a quorum store is kept whole, and lets members go
spaces.py        tablespaces in a cluster;  leading.py  who leads what;  holding.py  who holds what;  arrivals.py
                 tablespaces that a node gets while it runs
past.py, region.py    the past for readers on a node; a copy of the changelog in this node's region
flushing.py, carriers.py, checkpoints.py    what runs beside: flushes, carried sessions, checkpoints
"""
