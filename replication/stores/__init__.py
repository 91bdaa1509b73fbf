"""Changelog stores: where the objects of a replicated changelog lie.

    file:///var/lib/shoal-log          replication/stores/files.py        a directory, local or shared
    s3://bucket/prefix                 replication/stores/s3.py           Amazon S3 and what speaks like it
    log://host:port/prefix             replication/stores/log_client.py   a `shoal logstore` (log_server.py)
    quorum(E,W,A):url,url,...          replication/stores/quorum.py       several of these; repair.py mends it

`open_store` takes any of these URLs; `claim` binds a store to one cluster. files.py appends small objects to packs:
packs.py, appends.py. regional.py keeps a copy in a region that is far from the primary store.

    open.py, claim.py, names.py    from a URL to a store; the store's cluster; names of objects
    members.py, placement.py       members of a quorum; which of them an object goes to
    calls.py, log_protocol.py, tls.py, store_files.py    calls under way; what log stores speak; TLS; file operations
"""

from replication.stores.claim import claim
from replication.stores.open import open_store

__all__ = ["claim", "open_store"]
