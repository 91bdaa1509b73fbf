"""Partitioned tables and inheritance: a table whose rows are those of others.

    levels.py     one partitioned table: which of its partitions takes a key, which may hold rows that meet conditions
    expand.py     reading: in an analysed tree, the members of a table take its place
    parts.py      UPDATE and DELETE of several members, as statements of several parts
    plans.py      row plans by the partitions that the parameters leave;  member_choice.py  which these are
    router.py     which partition takes a row, and which columns of two tables are the same
    partition_writer.py    new rows, and rows that an UPDATE moves, on their way to a partition

Keys and bounds as text: catalog/partitions.py. Schema changes: engine/ddl/partitions.py, engine/ddl/inheritance.py,
engine/ddl/alter_children.py.

A partitioned table is a table whose own storage stays empty, so everything that looks only at storage needs no case for
it. Partitions and children are tables that name their parents (`parents`, `bound` and `partitioning` of `Table`).

- Analysis, privileges and views see the table that was named. Before planning, expand.py puts its members in its place:
  a `UNION ALL` of those that the statement's constants leave. Their columns stand at the positions of the table's
  column numbers, so nothing else in the tree changes. One member alone takes the place of the table itself. Both paths
  get plain tables, and conditions go down into the parts.
- Parameters choose when the statement runs (plans.py). Conditions on partition keys are evaluated, and each set of
  partitions that they leave has a row plan. So a look-up by the key is one get in one partition, with a lock on that
  one alone. Only what goes to the columnar path locks all of them. Bounds are compared as key bytes
  (`SqlType.key_encoder`), as in the keys of rows. The levels are made once for each version of the catalog, for which
  the plans are valid too.
- INSERT, COPY, and rows that an UPDATE moves, go through `PartitionedWriter`: the route, the order of the columns, the
  partition's own checks, its `TableWriter`. Many rows are cut by partition and written as a run of each
  (engine/bulk/partitioned.py). UPDATE and DELETE of several members are statements of several parts
  (engine/statements/compound.py) on one snapshot: no part meets a row that another part has moved.
- Each partition looks at a foreign key that refers to a partitioned table (engine/execute/foreign_keys.py). The
  referenced key holds the partition key, so it tells the partition of its row. A row that an UPDATE moves has changed,
  it has not gone.
- What a bound asks of rows is text made of the bound (catalog/partitions.py). When a partition itself is written to,
  that text is analysed and checked like a CHECK.
"""
