"""The changelog, and what a cluster needs for it. This package and engine/ never import each other. Only this package
imports kazoo.

    entry.py          one changelog entry as bytes;  joint_parts.py  the parts of a commit over several tablespaces
    local.py          the changelog of a node alone: segments.py (files), syncing.py (the kernel syncs), files.py
    log/              the changelog of a cluster: leader, committer, followers, election, ledgers
    stores/           where the objects of a cluster's changelog lie: directory, S3, log servers, quorum
    zookeeper/        ZooKeeper
    interface.py      what the log stands on: stores and coordination; and all that is kept in them
    placement.py      where replicas and leaders should be: a pure function
    directory.py, observer.py, picture.py    what is known of the cluster, kept up by watches
    checks.py         reports of a check of replicas;  examination.py  looks at a stopped server's changelog
"""
