"""The changelog of a node and of a cluster. This package and engine/ never import each other. Only this package imports
kazoo.

    entry.py          the encoding of one changelog entry
    commit_parts.py   the list of the parts of a commit over several tablespaces
    local.py          the changelog of a single node: segments.py (segment files), durable_mark.py (the
                      acknowledged LSN), file_sync.py (syncs), files.py (file operations)
    log/              the changelog of a cluster: leader, committer, followers, election, ledgers
    stores/           the stores for a cluster's changelog: directory, S3, log servers, quorum
    zookeeper/        the ZooKeeper client
    interface.py      the interfaces of stores and coordination, and the records that they hold
    placement.py      plans where replicas and leaders should be: a pure function
    znode_cache.py    a copy of znodes in memory, kept current by watches; on it directory.py (nodes and leaders, for
                      routers) and observer.py (the whole cluster, for views and placement)
    background.py     tasks that go on beside everything, and stop the node when they fail
    checks.py         the reports of a check of replicas
    examination.py    checks the changelog of a stopped server
"""
