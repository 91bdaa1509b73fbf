"""Shoal as a dialect of sqlglot: `sqlglot.parse_one(text, read="shoal")`, wherever this package is installed.

sqlglot finds it by the entry point `shoal` of the group `sqlglot.dialects`. The dialect is sqlglot's PostgreSQL with
what Shoal adds to it:

    t AS OF LSN 17, t AS OF TIMESTAMP '2026-01-01'      exp.Table with a `version` (exp.Version)
    CREATE TABLE ... TABLESPACE fast                    exp.TableSpaceProperty, as for PostgreSQL
    CREATE, ALTER, DROP CHANGE STREAM                   CreateChangeStream, AlterChangeStream, DropChangeStream
    CREATE DATABASE b FROM a AS OF ...                  exp.Command

The server has a parser of its own (engine/sql/parser), so nothing here decides what it accepts. This package imports
nothing of it.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokens import TokenType

__all__ = ["AlterChangeStream", "CreateChangeStream", "DropChangeStream", "Shoal"]


class CreateChangeStream(exp.Expression):  # type: ignore[misc]  # sqlglot is untyped here
    """`expressions`: its tables; without them it is FOR ALL TABLES. `options`: pairs of names and values."""

    arg_types = {"this": True, "expressions": False, "tablespace": False, "options": False, "exists": False}


class AlterChangeStream(exp.Expression):  # type: ignore[misc]
    """`action`: ADD TABLE, DROP TABLE, SET, RENAME TO, OWNER TO; `expressions`: tables, pairs, or a name."""

    arg_types = {"this": True, "action": True, "expressions": True}


class DropChangeStream(exp.Expression):  # type: ignore[misc]
    """`expressions`: the names of the streams."""

    arg_types = {"expressions": True, "exists": False}


class ShoalParser(PostgresParser):  # type: ignore[misc]
    """PostgreSQL's rules, with AS OF behind tables and CHANGE STREAM behind CREATE, ALTER and DROP."""

    VERSION_PHRASES = {("AS", "OF", "LSN"): "LSN", ("AS", "OF", "TIMESTAMP"): "TIMESTAMP"}
    STATEMENT_PARSERS = {
        **PostgresParser.STATEMENT_PARSERS,
        TokenType.CREATE: lambda self: (
            self.parse_change_stream("create") or self.parse_branch() or self._parse_create()
        ),
        TokenType.ALTER: lambda self: self.parse_change_stream("alter") or self._parse_alter(),
        TokenType.DROP: lambda self: self.parse_change_stream("drop") or self._parse_drop(),
    }

    def parse_change_stream(self, verb: str) -> exp.Expression | None:
        """The statement behind its first word, if CHANGE STREAM comes next."""
        if not self._match_text_seq("CHANGE", "STREAM"):
            return None
        if verb == "create":
            return self._create_change_stream()
        if verb == "drop":
            exists = self._parse_exists()
            return self.expression(DropChangeStream(expressions=self._parse_csv(self._parse_id_var), exists=exists))
        return self._alter_change_stream()

    def parse_branch(self) -> exp.Expression | None:
        """CREATE DATABASE name FROM another one, which makes a branch: kept as it is written."""
        start, index = self._prev, self._index
        if self._match_text_seq("DATABASE") and self._parse_id_var() and self._match_text_seq("FROM"):
            self._retreat(index)
            return self._parse_as_command(start)
        self._retreat(index)
        return None

    def _create_change_stream(self) -> exp.Expression:
        exists = self._parse_exists(not_=True)
        name = self._parse_id_var()
        self._want("FOR")
        tables, tablespace = [], None
        if self._match_text_seq("ALL", "TABLES"):
            if self._match_text_seq("IN", "TABLESPACE"):
                tablespace = self._parse_id_var()
        else:
            self._want("TABLE")
            tables = self._parse_csv(self._parse_table_parts)
        options = self._options() if self._match_text_seq("WITH") else None
        return self.expression(
            CreateChangeStream(this=name, expressions=tables, tablespace=tablespace, options=options, exists=exists)
        )

    def _alter_change_stream(self) -> exp.Expression:
        name = self._parse_id_var()
        for words in (("ADD", "TABLE"), ("DROP", "TABLE"), ("SET",), ("RENAME", "TO"), ("OWNER", "TO")):
            if self._match_text_seq(*words):
                break
        else:
            self.raise_error("Expected ADD, DROP, SET, RENAME or OWNER")
        if words[-1] == "TABLE":
            found = self._parse_csv(self._parse_table_parts)
        else:
            found = self._options() if words == ("SET",) else [self._parse_id_var()]
        return self.expression(AlterChangeStream(this=name, action=" ".join(words), expressions=found))

    def _options(self) -> list[exp.Expression]:
        found: list[exp.Expression] = self._parse_wrapped_csv(self._parse_assignment)
        return found

    def _want(self, word: str) -> None:
        if not self._match_text_seq(word):
            self.raise_error(f"Expected {word}")


class ShoalGenerator(PostgresGenerator):  # type: ignore[misc]
    """The same as text."""

    TRANSFORMS = {
        **PostgresGenerator.TRANSFORMS,
        CreateChangeStream: lambda self, node: self.create_stream(node),
        AlterChangeStream: lambda self, node: self.alter_stream(node),
        DropChangeStream: lambda self, node: self.drop_streams(node),
    }

    def version_sql(self, expression: exp.Version) -> str:
        return f"AS OF {expression.name} {self.sql(expression, 'expression')}"

    def create_stream(self, expression: CreateChangeStream) -> str:
        exists = "IF NOT EXISTS " if expression.args.get("exists") else ""
        tables, tablespace = self.expressions(expression, flat=True), self.sql(expression, "tablespace")
        watched = f"TABLE {tables}" if tables else f"ALL TABLES{f' IN TABLESPACE {tablespace}' if tablespace else ''}"
        options = self.expressions(expression, key="options", flat=True)
        behind = f" WITH ({options})" if options else ""
        return f"CREATE CHANGE STREAM {exists}{self.sql(expression, 'this')} FOR {watched}{behind}"

    def alter_stream(self, expression: AlterChangeStream) -> str:
        action, found = expression.text("action"), self.expressions(expression, flat=True)
        return (
            f"ALTER CHANGE STREAM {self.sql(expression, 'this')} {action} {f'({found})' if action == 'SET' else found}"
        )

    def drop_streams(self, expression: DropChangeStream) -> str:
        exists = "IF EXISTS " if expression.args.get("exists") else ""
        return f"DROP CHANGE STREAM {exists}{self.expressions(expression, flat=True)}"


class Shoal(Postgres):  # type: ignore[misc]
    """The dialect, which sqlglot knows as `shoal`."""

    ALIAS_POST_VERSION = True
    Parser = ShoalParser
    Generator = ShoalGenerator
