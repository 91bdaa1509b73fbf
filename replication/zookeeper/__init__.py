"""ZooKeeper as the coordination service of `replication/interface.py`, through kazoo.

address.py     zk:// URLs, credentials and TLS from the environment
connection.py  the connection, whose socket is lent to the loop
bridge.py      what else kazoo asks for: threads, sockets, the way of results
session.py     requests, watches, states, how long the session is alive for sure
cluster.py     opening a chroot; which cluster it holds
"""

from replication.zookeeper.address import Address, parse_address
from replication.zookeeper.cluster import FORMAT, join_cluster, open_coordination
from replication.zookeeper.session import MAX_REQUEST_BYTES, ZooKeeperCoordination, check_size

__all__ = [
    "FORMAT",
    "MAX_REQUEST_BYTES",
    "Address",
    "ZooKeeperCoordination",
    "check_size",
    "join_cluster",
    "open_coordination",
    "parse_address",
]
