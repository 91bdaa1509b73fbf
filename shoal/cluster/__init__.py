"""A node of a cluster: connects the engine with the replicated log.

member.py            the node from start to stop
membership.py        the cluster and node of this directory; the session with ZooKeeper; the node's registration
adapter.py           adapters: the engine for the log (`ReplicaEngine` in replication/log/interface.py), the log for the
                     engine (`Replica` in engine/replica.py), the leader for the proxy (`Locator` in
                     wire/session_proxy.py)
replica_bootstrap.py makes a data directory a replica, from a checkpoint if necessary
cluster_creation.py  makes a data directory the first node's of a new cluster
cluster_state.py     the node's view of the cluster; checks and checkpoints on request
controller.py        one node's task: moves replicas and leaders as replication/placement.py plans them
store_repair.py      repairs a quorum store, and empties leaving members
tablespaces.py       the tablespaces of a node
leadership.py        the leaderships of a node, and their transfer
replica_placement.py the replicas of a node, how it gets them and gives them up
apply_order.py       the order in which a follower applies entries that concern several tablespaces
past.py              the past of a tablespace, for readers on a node
region.py            a copy of the changelog in this node's region
timed_flush.py       flushes memtables at intervals
forwarding_watch.py  ends the sessions that a lost node has forwarded here
checkpoints.py       writes checkpoints to the cluster's store
"""
