"""Changelog stores, which hold the objects of a replicated changelog.

    file:///var/lib/shoal-log          replication/stores/files.py        a directory, local or shared
    s3://bucket/prefix                 replication/stores/s3.py           Amazon S3 and compatible services
    log://host:port/prefix             replication/stores/log_client.py   a `shoal logstore` (log_server.py)
    quorum(E,W,A):url,url,...          replication/stores/quorum.py       several of these; repair.py repairs it

`open_store` takes any of these URLs; `claim` binds a store to one cluster.

    open.py              opens the store of a URL
    claim.py             claims a store for its cluster
    names.py             the names of objects
    pack_reader.py       packs: files of a directory store that hold many small objects; pack_writer.py appends to them
    store_files.py       the file operations of a directory store
    members.py           the members of a quorum;  member_order.py  computes which of them hold an object
    regional.py          a store with a copy in a region that is far from the primary store
    call_deadlines.py    the deadlines of calls to a store
    log_protocol.py      the protocol of log stores;  tls.py  their TLS
"""

from replication.stores.claim import claim
from replication.stores.open import open_store

__all__ = ["claim", "open_store"]
