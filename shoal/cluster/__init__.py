"""A node's part in a cluster: what joins the engine with the replicated log.

membership.py    which cluster and node this directory belongs to; the session with ZooKeeper; the node's registration
adapter.py       the engine as the log sees it (replication.log.ReplicaEngine), the log as the engine sees it
                 (engine.replica.Replica), the leader as the relay sees it (wire.relay.Locator)
joining.py       how a data directory becomes a replica: alone before, new, from a checkpoint
seeing.py        what it shows of the cluster, checks, checkpoints on request
controller.py    replicas and leaders are where they should be: one node's office
mending.py       a quorum store is kept whole, and lets members go
member.py        all of it, from start to stop
"""
