"""Change streams: committed changes in order, with the rows before and after, for later readers.

   capture.py     at COMMIT: adds the transaction's changed rows, as they were and as they become, to its writes, as one
                  or a few rows of a hidden table
   bulk.py        the same for COPY and large DML, in whole columns, in the statement's thread
   record.py      the form of these rows
   shapes.py      table definitions of the time of a change, stored beside it, because rows are read with their schema
   tables.py      the tables that are captured, and the table of their changes; log.py: one such table of changes
   stream_reader.py     shoal_changes(): converts the rows to changes
   positions.py   the position of each stream, the retention of changes, and their removal
   streams.py     the interface to the node; LISTEN "shoal.<stream>"

CREATE, ALTER and DROP CHANGE STREAM: engine/ddl/change_streams.py.

**Why a table.** The data of a stream must be part of the commit, so that both exist or neither does, and only the
writer has the rows before the change. As rows of a table in the same tablespace, the changes are durable, replicated,
checkpointed, backed up and restored like all other data, on every replica, whichever node leads, and independently of
the length of the changelog. A stream retains only these rows, up to a limit of its own. Changes in the changelog alone
would retain whole segments and ledgers, and the bulk files of every COPY. The cost is that a changed row of such a
table is written twice. Tables outside of streams have no cost.

**Order and completeness.** The capture runs where the commit gets its LSN, with the committed catalog and all sequenced
changes of it. So every commit above the LSN of CREATE CHANGE STREAM is in the stream, whenever its transaction started.
Within a tablespace, LSNs are the order of commits. A transaction over several tablespaces has a part in the streams of
each.
"""
