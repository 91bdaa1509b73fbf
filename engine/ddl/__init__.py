"""Schema changes. Each statement becomes new schema objects, and jobs for changes of rows.

   tables.py     CREATE TABLE, and the `TableBuilder` that ALTER TABLE also uses
   alter.py      ALTER TABLE;  alteration.py  the effect of its commands on a table;  alter_children.py  on its children
   indexes.py    CREATE INDEX and REINDEX;  index_columns.py  the columns of indexes;  physical_order.py  CLUSTER
   sequences.py  CREATE / ALTER SEQUENCE
   views.py      CREATE VIEW
   drop.py       DROP, with dependencies;  parts.py  parts of objects;  truncate.py  TRUNCATE
   tablespaces.py  CREATE / ALTER / DROP TABLESPACE, and the tablespace of a relation
   extensions.py  CREATE / ALTER / DROP EXTENSION; code_users.py  the objects that use functions and operators
   routines.py   CREATE / ALTER / DROP FUNCTION and PROCEDURE
   user_types.py  enums and domains;  composites.py  composite types;  ranges.py  range types
   collations.py  collations;  statistics_objects.py  CREATE / ALTER STATISTICS
   grants.py     GRANT and REVOKE; owned.py  REASSIGN OWNED and DROP OWNED; default_privileges.py
   objects.py    schemas, databases, comments, renames, owners; roles.py  roles
   ownership.py  rules about owners: who may change, give away or move an object
   names.py      finds objects by name, generates names, refuses used names
   like.py       CREATE TABLE (LIKE ...);  key_dependents.py  views that need a primary key
   expressions.py    expressions that are stored as text;  rewrite_text.py  these texts after a rename
   partitions.py, partition_members.py    partitioned tables and their partitions;  detach.py  DETACH PARTITION
   inheritance.py    tables with parents
   replica_identity.py   ALTER TABLE ... REPLICA IDENTITY
   policies.py   CREATE / ALTER / DROP POLICY, and policies as dependents
   foreign.py    foreign data wrappers, servers, user mappings;  foreign_tables.py;  foreign_options.py  OPTIONS (...)
   exclusion.py  EXCLUDE;  foreign_keys.py;  branches.py  branches;  change_streams.py  change streams

Everything here is synchronous and works on catalog objects only. A change of rows is a Job (context.py), which the
session runs afterwards. A change may run again after a LockWait, so it does nothing outside of the transaction.
engine/statements/kinds.py maps statements to these functions.
"""
