"""FROM: tables, sub-queries, VALUES, and joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlglot.expressions as exp

from engine.sql.dialects.writer import Writer, construct, word_of

_BARE = ("mysql", "oracle")  # dialects in which FROM dual means no FROM


def from_clause(writer: Writer, from_: Any, joins: Sequence[Any] | None) -> str:
    """Returns FROM with its joins; '' without FROM."""
    if from_ is None:
        if joins:
            writer.refuse("JOIN without FROM", joins[0])
        return ""
    (first,) = writer.take(from_, "this")
    if _is_dual(writer, first) and not joins:
        return ""
    return f"FROM {_with_joins(writer, first, joins or ())}"


def _is_dual(writer: Writer, node: Any) -> bool:
    if writer.dialect not in _BARE or not isinstance(node, exp.Table) or node.args.get("db"):
        return False
    return word_of(node.this) == "DUAL" and bool(writer.take(node, "this"))


def _with_joins(writer: Writer, first: Any, joins: Sequence[Any]) -> str:
    """Writes the items of FROM. If there are only commas, they stay. Beside joins a comma becomes CROSS JOIN. Raises
    0A000 for later RIGHT, FULL and NATURAL joins and joins with USING, whose meaning that would change."""
    text = _source(writer, first)
    commas = [_is_comma(join) for join in joins]
    if all(commas):
        return ", ".join((text, *(_source(writer, writer.take(join, "this")[0]) for join in joins)))
    met = False
    for join, comma in zip(joins, commas, strict=True):
        word = str(join.args.get("kind") or "")
        met = met or comma or (writer.dialect == "spark" and word == "CROSS")  # sqlglot's word for a comma
        side = str(join.args.get("side") or "").upper()
        if met and (side in ("RIGHT", "FULL") or join.args.get("using") or join.args.get("method")):
            writer.refuse(f"{side or 'USING or NATURAL'} JOIN beside a comma", join)
        text = f"{text} {_join(writer, join)}"
    return text


def _is_comma(node: Any) -> bool:
    """Whether a join is a comma, or a JOIN without other clauses, which sqlglot does not distinguish."""
    applied = isinstance(node.this, exp.Lateral) and node.this.args.get("cross_apply") is not None
    return not applied and not any(node.args.get(name) for name in ("on", "side", "kind", "using", "method"))


def _join(writer: Writer, node: Any) -> str:
    source, on, side, kind, using, method = writer.take(node, "this", "on", "side", "kind", "using", "method")
    side, kind, method = (str(word or "").upper() for word in (side, kind, method))
    if isinstance(source, exp.Lateral) and source.args.get("cross_apply") is not None:
        if on is not None or side or kind or using or method:
            writer.refuse("APPLY with a condition", node)
        if source.args["cross_apply"]:
            return f"CROSS JOIN {_source(writer, source)}"
        return f"LEFT JOIN {_source(writer, source)} ON TRUE"
    conditions = (on is not None) + bool(using) + bool(method)
    if method not in ("", "NATURAL") or side not in ("", "LEFT", "RIGHT", "FULL") or conditions > 1:
        writer.refuse(f"{method} {side} JOIN".replace("  ", " ").strip(), node)
    if kind not in ("", "INNER", "OUTER", "CROSS") or (kind == "CROSS" and (conditions or side)):
        writer.refuse(f"{side} {kind} JOIN".strip(), node)
    if method or kind == "CROSS" or _is_comma(node):
        word = f"NATURAL {side} JOIN".replace("  ", " ") if method else "CROSS JOIN"
        return f"{word} {_source(writer, source)}"
    if on is None and not using:
        writer.refuse(f"{side or kind} JOIN without a condition".strip(), node)
    condition = f"USING ({', '.join(map(writer.name, using))})" if using else f"ON {writer.text(on)}"
    return f"{side} JOIN {_source(writer, source)} {condition}".strip()


# ---- items of FROM -------------------------------------------------------------------------------------------------


def _source(writer: Writer, node: Any) -> str:
    write = _SOURCES.get(type(node))
    if write is None:
        writer.refuse(f"FROM {construct(node)}", node)
    return write(writer, node)


def _table(writer: Writer, node: Any) -> str:
    name, schema, catalog, alias, joins = writer.take(node, "this", "db", "catalog", "alias", "joins")
    if joins:
        return f"({_with_joins(writer, exp.Table(**{**node.args, 'joins': None}), joins)})"
    return f"{table_name(writer, name, schema, catalog)}{_alias(writer, alias)}"


def table_name(writer: Writer, name: Any, schema: Any, catalog: Any) -> str:
    """Returns a table's name with its schema. Raises 0A000 for other nodes."""
    return ".".join(writer.name(part) for part in (catalog, schema, name) if part is not None)


def _alias(writer: Writer, node: Any) -> str:
    return "" if node is None else f" AS {writer.text(node)}"


def _table_alias(writer: Writer, node: Any) -> str:
    name, columns = writer.take(node, "this", "columns")
    if name is None:
        writer.refuse("names of columns without a name of the table", node)
    listed = f" ({', '.join(map(writer.name, columns))})" if columns else ""
    return f"{writer.name(name)}{listed}"


def _subquery(writer: Writer, node: Any) -> str:
    query, alias, joins = writer.take(node, "this", "alias", "joins")
    if isinstance(query, exp.Table | exp.Subquery) and alias is None:  # parentheses around a join
        inner = exp.Table(**query.args) if isinstance(query, exp.Table) else query
        text = f"({_source(writer, inner)})" if not _has_joins(query) else _source(writer, inner)
    else:
        named = f" AS {writer.new_alias()}" if alias is None else _alias(writer, alias)
        text = f"({writer.text(query)}){named}"
    if joins:
        for join in joins:
            text = f"{text} {_join(writer, join)}"
        return f"({text})"
    return text


def _has_joins(node: Any) -> bool:
    return bool(node.args.get("joins"))


def _lateral(writer: Writer, node: Any) -> str:
    query, alias, _ = writer.take(node, "this", "alias", "cross_apply")
    if not isinstance(query, exp.Subquery):
        writer.refuse(f"LATERAL {construct(query)}", node)
    (inner,) = writer.take(query, "this")
    named = f" AS {writer.new_alias()}" if alias is None else _alias(writer, alias)
    return f"LATERAL ({writer.text(inner)}){named}"


def _values_source(writer: Writer, node: Any) -> str:
    rows, alias = writer.take(node, "expressions", "alias")
    text = values(writer, node, rows)
    if alias is None:
        return f"({text}) AS {writer.new_alias()}"
    return f"({text}){_alias(writer, alias)}"


def values(writer: Writer, node: Any, rows: Sequence[Any]) -> str:
    """VALUES; MySQL writes ROW before each row."""
    texts = []
    for row in rows:
        items = writer.take(row, "expressions")[0] if isinstance(row, exp.Tuple) else [row]
        if len(items) == 1 and isinstance(items[0], exp.Anonymous) and str(items[0].this).upper() == "ROW":
            if writer.dialect != "mysql":
                writer.refuse("ROW", node)
            items = items[0].expressions
        texts.append(f"({', '.join(_item(writer, item) for item in items)})")
    return f"VALUES {', '.join(texts)}"


def _item(writer: Writer, node: Any) -> str:
    """Writes a value, or DEFAULT, which PostgreSQL accepts only in INSERT."""
    return "DEFAULT" if word_of(node) == "DEFAULT" else writer.text(node)


def _values(writer: Writer, node: Any) -> str:
    return values(writer, node, writer.take(node, "expressions")[0])


_SOURCES: dict[type, Callable[[Writer, Any], str]] = {
    exp.Table: _table,
    exp.Subquery: _subquery,
    exp.Lateral: _lateral,
    exp.Values: _values_source,
}
WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    exp.TableAlias: _table_alias,
    exp.Values: _values,
}
