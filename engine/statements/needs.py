"""The requirements of statements and expressions on the node that runs them, from their syntax trees.

    NOTHING    settings, transaction control, cursors and statements of the session itself, SELECTs without tables: they
               run on any node
    READ       readers of the catalog or tables: they run where the replica is fresh enough (engine/replica.py)
    LEADER     statements that write or may write: DML, DDL, COPY, LOCK, FOR UPDATE, sequences, cursors WITH HOLD

A function counts by its name alone, in any schema: name resolution needs a catalog, and the catalog of a follower may
lack objects of the leader. So a function with a side effect inside a view is not found here; on a follower it then
fails (40001), and nothing has happened.
"""

from __future__ import annotations

from enum import IntEnum

from catalog.functions.base import Trait
from catalog.functions.registry import names_with
from engine.sql import ast
from engine.sql.tree_walk import walk


class Needs(IntEnum):
    """In ascending order of the requirements."""

    NOTHING = 0
    READ = 1
    LEADER = 2


_OWN_VALUES = frozenset(("current_user", "session_user", "user", "current_role", "current_catalog"))
WRITES = (ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)


def of_query(statement: ast.Node) -> Needs:
    """The needs of a query, or of any other tree."""
    return max((of_node(node) for node in walk(statement)), default=Needs.NOTHING)


def of_node(node: ast.Node) -> Needs:
    """The needs of one node of a tree, without its children."""
    if isinstance(node, WRITES):
        return Needs.LEADER
    if isinstance(node, ast.SelectStmt):
        return Needs.LEADER if node.locking or node.into is not None else Needs.NOTHING
    if isinstance(node, ast.FuncCall):
        if node.names[-1] in names_with(Trait.LEADER):
            return Needs.LEADER
        return Needs.NOTHING if node.names[-1] in names_with(Trait.SESSION_ONLY) else Needs.READ
    if isinstance(node, ast.SqlValueFunction):
        return Needs.NOTHING if node.name in _OWN_VALUES else Needs.READ
    return Needs.READ if isinstance(node, ast.RangeVar | ast.RangeFunction | ast.TypeCast) else Needs.NOTHING
