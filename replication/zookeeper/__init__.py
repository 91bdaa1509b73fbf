"""ZooKeeper as the coordination service of `replication/interface.py`, through kazoo.

address.py     zk:// URLs, credentials and TLS from the environment
connection.py  the connection, whose socket the loop uses
bridge.py      other services for kazoo: threads, sockets, results
session.py     requests, watches, states, the certain lifetime of the session
cluster.py     opens a chroot, and checks its cluster
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
