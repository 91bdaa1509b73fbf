"""The reasons for which PostgreSQL writes the rows of a table anew, as pg_event_trigger_table_rewrite_reason() tells
them (AT_REWRITE_* of event_trigger.h). Shoal has other reasons too, for which no event trigger fires."""

from __future__ import annotations

from catalog.types.oids import NUMERIC, VARBIT, VARCHAR
from engine.sql import tree

WIDENING = frozenset({NUMERIC, VARBIT, VARCHAR})
_PLAIN = (tree.RelabelType, tree.CollateExpr, tree.CoerceToDomain, tree.CoerceTypmod)

NEW_VALUES = 2
"""Of new columns, which are not the same in all rows."""
NEW_TYPE = 4


def changes_values(conversion: tree.Expr) -> bool:
    """Whether a conversion to a column's new type changes the stored values (ATColumnChangeRequiresRewrite)."""
    while not isinstance(conversion, tree.Var):
        if isinstance(conversion, tree.CoerceToDomain) and (conversion.not_null or conversion.checks):
            return True
        if isinstance(conversion, tree.CoerceTypmod) and not _only_widens(conversion):
            return True
        if not isinstance(conversion, _PLAIN):
            return True
        conversion = conversion.argument
    return False


def _only_widens(cast: tree.CoerceTypmod) -> bool:
    """Whether every value of the former type fits the new modifier: of varchar and varbit a larger one, of numeric a
    larger precision of the same scale."""
    before, after = cast.argument.type.typmod, cast.type.typmod
    if after < 0:
        return True
    if before < 0 or cast.type.oid not in WIDENING:
        return False
    if cast.type.oid == NUMERIC:
        return (before - 4) & 0xFFFF == (after - 4) & 0xFFFF and before <= after
    return before <= after
