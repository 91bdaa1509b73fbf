"""Schema changes: each statement becomes new schema objects, and jobs on rows where the rows must follow.

    tables.py     CREATE TABLE, and the `TableBuilder` that ALTER TABLE uses too
    alter.py      ALTER TABLE;  alteration.py  what its commands do to a table;  alter_children.py  and to its children
    indexes.py    CREATE INDEX and REINDEX;  index_columns.py  the columns of indexes
    sequences.py  CREATE / ALTER SEQUENCE
    views.py      CREATE VIEW
    drop.py       DROP and TRUNCATE, with what depends on what
    tablespaces.py  CREATE / ALTER / DROP TABLESPACE, and where relations go
    extensions.py  CREATE / ALTER / DROP EXTENSION; code_users.py  what uses functions and operators
    routines.py   CREATE / ALTER / DROP FUNCTION and PROCEDURE
    user_types.py  enums and domains;  composites.py  composite types;  collations.py  collations
    grants.py     GRANT and REVOKE; owned.py  REASSIGN OWNED and DROP OWNED; default_privileges.py
    objects.py    schemas, databases, comments, renames, owners; roles.py  roles
    ownership.py  who owns what, to whom it may be given, and where it may go
    names.py      how objects are found, named and refused
    like.py       CREATE TABLE (LIKE ...);  key_dependents.py  views that need a primary key
    expressions.py    expressions that are kept as text;  rewrite_text.py  the same after a rename
    partitions.py, partition_members.py    partitioned tables, and what partitions have of them;  inheritance.py
    exclusion.py  EXCLUDE;  foreign_keys.py;  branches.py  branches;  change_streams.py  change streams

Everything is synchronous and works on catalog objects only; what touches rows is a Job (context.py) that the session
runs afterwards. A change may be run again after a LockWait, so nothing happens outside the transaction. Which function
runs which statement is in engine/statements/kinds.py.
"""
