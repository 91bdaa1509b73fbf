"""Each class of sqlglot's tree, and each argument of it, is known or refused."""

from __future__ import annotations

import pytest
import sqlglot.expressions as exp

from catalog.errors import SqlError
from engine.sql.dialects import functions
from engine.sql.dialects.names import TRAITS
from engine.sql.dialects.reader import pieces, tree_of
from engine.sql.dialects.statements import statements_in
from engine.sql.dialects.translation import WRITERS
from engine.sql.dialects.writer import Writer
from tests.engine.sql.dialects.constructs import COMMON, CONSTRUCTS, REFUSED
from tests.engine.sql.dialects.statements import STATEMENTS

# Read by the writer of the node above it, by their arguments.
_INSIDE = {
    exp.ColumnConstraint, exp.ColumnDef, exp.DataType, exp.DataTypeParam, exp.DefaultColumnConstraint, exp.From,
    exp.Having, exp.Identifier, exp.IndexParameters, exp.Join, exp.Lateral, exp.LimitOptions, exp.Lock,
    exp.NotNullColumnConstraint, exp.Offset, exp.PrimaryKey, exp.PrimaryKeyColumnConstraint, exp.Qualify, exp.Schema,
    exp.Table, exp.UniqueColumnConstraint, exp.Var, exp.With,
}  # fmt: skip
_CLASSES = [
    value
    for value in vars(exp).values()
    if isinstance(value, type) and issubclass(value, exp.Expression) and value is not exp.Expression
]


def _texts() -> list[tuple[str, str]]:
    texts = [
        (dialect, f"SELECT {sql} FROM t")
        for dialect, cases in CONSTRUCTS.items()
        for sql, expected in COMMON + cases
        if expected is not REFUSED
    ]
    return texts + [(dialect, sql) for dialect, sql, _ in STATEMENTS]


def test_sqlglot_has_far_more_classes_than_are_known() -> None:
    assert len(_CLASSES) > 800
    assert 60 < len(WRITERS) < 100


@pytest.mark.parametrize("dialect", TRAITS)
def test_a_class_that_is_not_known_is_refused_by_its_name(dialect: str) -> None:
    writer = Writer(TRAITS[dialect], WRITERS, {})
    unknown = [item for item in _CLASSES if item not in WRITERS]
    for item in unknown:
        with pytest.raises(SqlError) as error:
            writer.text(item())
        assert error.value.sqlstate == "0A000"
        assert error.value.message.endswith(f'" of the dialect {dialect} has no counterpart in PostgreSQL')


def test_each_class_that_is_known_is_met_by_a_case() -> None:
    met = set()
    for dialect, sql in _texts():
        (piece,) = pieces(sql, TRAITS[dialect])
        met |= {type(node) for node in tree_of(piece.tokens, sql, TRAITS[dialect]).walk()}
    assert sorted(item.__name__ for item in (set(WRITERS) | _INSIDE) - met) == []


def test_an_argument_that_is_not_known_is_refused() -> None:
    """Each argument of each node of each case, set to something: the text changes, or it is refused. What changes
    nothing is on the list, with its reason."""
    harmless = {
        ("Div", "typed"), ("Div", "safe"), ("DPipe", "safe"), ("Concat", "safe"), ("Concat", "coalesce"),  # by dialect
        ("DataType", "nested"), ("Identifier", "quoted"), ("Substring", "zero_start"),
        ("StrPosition", "clamp_position"),
        ("Fetch", "direction"), ("LimitOptions", "rows"), ("Window", "over"), ("PrimaryKey", "options"),
        ("Ordered", "nulls_first"), ("Lateral", "cross_apply"), ("Order", "this"),
        ("Literal", "is_string"), ("With", "recursive"),
    }  # fmt: skip
    wrong = set()
    for dialect, sql in _texts():
        traits = TRAITS[dialect]
        (piece,) = pieces(sql, traits)
        tree = tree_of(piece.tokens, sql, traits)
        writer = Writer(traits, WRITERS, {token.start: 1 for token in piece.tokens})
        text = writer.text(tree)
        for node in list(tree.walk()):
            for name in node.arg_types:
                if node.args.get(name) or (type(node).__name__, name) in harmless:
                    continue
                node.args[name] = "something"
                try:
                    if writer.text(tree) == text:
                        wrong.add((type(node).__name__, name))
                except (SqlError, AttributeError, TypeError, KeyError):
                    pass
                del node.args[name]
    assert sorted(wrong) == []


@pytest.mark.parametrize("dialect", TRAITS)
def test_a_function_that_is_not_known_is_refused_by_its_name(dialect: str) -> None:
    known = set(functions.names(dialect))
    assert "COUNT" in known
    with pytest.raises(SqlError, match=r'0A000: "NO_SUCH_FUNCTION" of the dialect'):
        statements_in("SELECT no_such_function(1)", dialect)


@pytest.mark.parametrize("dialect", TRAITS)
def test_functions_refuse_another_number_of_arguments(dialect: str) -> None:
    writer = Writer(TRAITS[dialect], WRITERS, {})
    number = exp.Literal.number(1)
    for name in functions.names(dialect):
        write = functions.find(dialect, name)
        assert write is not None
        with pytest.raises(SqlError):
            write(functions.Call(writer, exp.Anonymous(this=name), name, [number] * 300))
