"""Change streams: what was committed, in order, with rows before and after, for whoever reads it later.

    capture.py     at COMMIT: the rows that the transaction changes, as they were and as they become, are added to its
                   writes as one row more (or a few) of a hidden table
    bulk.py        the same of COPY and large DML, in whole columns, in the statement's thread
    record.py      that row's form
    shapes.py      a table's definition at that time, kept beside it: rows are read with the schema that they had
    tables.py      which tables are captured, and where their changes go; log.py: such a place
    stream_reader.py     shoal_changes(): rows back into changes
    positions.py   how far a stream was read; what is kept for it, and what is let go
    streams.py     what the node calls; LISTEN "shoal.<stream>"

CREATE, ALTER and DROP CHANGE STREAM: engine/ddl/change_streams.py.

**Why a table.** What a stream needs of a commit must be in the commit: then it is there exactly if the commit is. The
rows before are in the writer's hand and nowhere else later. Kept as a row of a table in the same tablespace, they are
durable, replicated, checkpointed, backed up and restored with everything else, on every replica, whoever leads, however
far the changelog has been cut; a stream holds back nothing but these rows, up to a limit of its own. Kept in the
changelog alone they would hold back whole segments and ledgers, and the bulk files of everybody's COPY. The price is
that a changed row of such a table is written twice; tables outside of streams pay nothing.

**Order and completeness.** The capture runs where the commit gets its LSN, on the committed catalog and those changes
of it that are sequenced: a commit above the LSN of CREATE CHANGE STREAM is in the stream, whenever it began. Within a
tablespace LSNs are the order of commits. A transaction over several tablespaces has a part in each of their streams.
"""
