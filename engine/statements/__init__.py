"""Statements: planning and execution of each kind.

The path of a statement: find.py (the cached path), planning.py (text -> plan), run.py (statements that may wait: lock,
plan again, run), extended.py (Parse and Bind).

    registry.py, kinds.py       the properties of a kind of statement: one row for each
    rows_plan.py, paths.py      the plan of a query or a change of rows, and the choice of its path
    columnar_path.py, columnar_read.py    queries in DuckDB
    dml.py, data_change.py, insert.py, update.py, merge.py    changes of rows that the columnar path computes
    compound.py                 statements of several parts
    foreign_path.py, import_schema.py    statements over foreign tables; IMPORT FOREIGN SCHEMA
    as_of.py                    statements and sessions that read the past
    utility.py                  the plan of other statements; their kinds are in files of their own:
                                settings.py, transaction.py, prepared_statements.py, cursors.py, discard.py, notify.py,
                                checkpoint.py,
                                alter_system.py, explain.py, copy.py, lock_table.py, vacuum.py, reindex.py,
                                physical_order.py (CLUSTER)
    call.py, routine_calls.py   CALL, and SELECTs that are calls of functions whose bodies are more than a query
    prompt.py                   these, and statements that fire triggers, up to their first wait
    schema_change.py, ddl_context.py    schema changes (engine/ddl);  databases.py, branches.py, schemas.py,
                                tablespaces.py, roles.py  further work of some of them;  temporary.py  temporary
                                tables;  concurrent_index.py, detach.py  their waits with CONCURRENTLY
    event_triggers.py, event_commands.py, command_tags.py    event triggers, what they see, and the tags of commands
    rule_plans.py, rule_checks.py    statements on relations with rules
    create_table_as.py, matviews.py, table_of_query.py    tables made from a query
    routing.py, needs.py, statement_tablespaces.py    statements that a follower may run; tablespaces of a statement
    collect.py                  stored results;  function_call.py  calls by OID
"""

from engine.statements import kinds as _kinds  # noqa: F401 - makes all kinds known
