"""Partitioned tables and inheritance: a table whose rows are those of others.

    levels      one partitioned table: which of its partitions takes a key, which may hold rows that meet conditions
    writing     new rows, and rows that an UPDATE moves, on their way to a partition
    expand      reading: in an analysed tree the members of a table take its place
    choosing    the partition of a statement that names the partition key in its parameters: one plan for each

A partitioned table is a table whose own storage stays empty, so everything that looks only at storage needs no case for
it. Its rows are read by taking it apart before planning, into `UNION ALL` of what may hold rows, so both paths see
plain tables. Comparisons are those of key bytes (`SqlType.key_encoder`), as in the keys of rows.
"""
