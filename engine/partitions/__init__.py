"""Partitioned tables and inheritance: tables whose rows are in other tables.

    levels.py     one partitioned table: the partition of a key, and the partitions for conditions
    expand.py     reading: replaces a table in an analysed tree by its members
    parts.py      UPDATE and DELETE of several members, as statements of several parts
    plans.py      row plans for the partitions that match the parameters;  member_choice.py  chooses the members
    router.py     finds the partition of a row, and maps the columns of two tables
    key_copies.py  the names of the constraints that PostgreSQL has for each partition of a referenced table
    partition_writer.py    writes new rows, and rows that an UPDATE moves, to their partitions

Keys and bounds as text: catalog/partitions.py. Schema changes: engine/ddl/partitions.py, engine/ddl/inheritance.py,
engine/ddl/alter_children.py.

A partitioned table has empty storage of its own, so code that reads only storage needs no special case. Partitions and
children are tables with parents (`parents`, `bound` and `partitioning` of `Table`).

- Analysis, privileges and views use the named table. Before planning, expand.py replaces it by its members: a
  `UNION ALL` of those that match the statement's constants. Their columns are at the positions of the table's column
  numbers, so the rest of the tree does not change. A single member replaces the table itself. Both paths get plain
  tables, and conditions are pushed down into the parts.
- Parameters choose members when the statement runs (plans.py). Conditions on partition keys are evaluated, and there
  is one row plan for each set of matching partitions. So a look-up by the key is one get in one partition, and locks
  only that one. Only statements on the columnar path lock all of them. Bounds are compared as key bytes
  (`SqlType.key_encoder`), as in the keys of rows. The levels are computed once for each version of the catalog, like
  plans.
- INSERT, COPY, and rows that an UPDATE moves, use `PartitionedWriter`. It finds the partition, reorders the columns,
  runs the partition's own checks, and calls its `TableWriter`. Many rows are divided by partition and written as one
  run for each (engine/bulk/partitioned.py). UPDATE and DELETE of several members are statements of several parts
  (engine/statements/compound.py) on one snapshot, so no part sees a row that another part has moved.
- A foreign key to a partitioned table is checked in one partition (engine/execute/foreign_keys.py): the referenced
  key contains the partition key. A row that an UPDATE moves counts as changed, not as deleted.
- The condition of a bound is text that is made from the bound (catalog/partitions.py). If a statement names the
  partition itself, the text is analysed and checked like a CHECK.
"""
