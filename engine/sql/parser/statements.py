"""The statement level: the first words decide which rule reads the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.sql import ast
from engine.sql.parser.tables import Tables


class Statements(Tables):
    """stmtmulti."""

    def statements(self) -> list[ast.Statement]:
        """statement; statement; ..."""
        found = []
        while True:
            while self.accept(";"):
                pass
            if self._curr.key == "":
                return found
            start = self._curr.start
            self._highest_parameter = 0
            tree = self.statement()
            text = self.source(start)
            found.append(ast.Statement(tree, text, start, self._highest_parameter))
            if self._curr.key not in (";", ""):
                self.fail()

    def expect_end(self) -> None:
        if self._curr.key != "":
            self.fail()

    def statement(self) -> ast.Node:
        rule = _RULES.get(self._curr.key)
        if rule is not None:
            return rule(self)
        return self.preparable_statement()

    def create(self) -> ast.Node:
        start = self.expect("create").start
        persistence = self.persistence()
        if self._curr.key == "table":
            return self.create_table(start, persistence)
        if self._curr.key in ("unique", "index"):
            return self.create_index(start)
        self.fail()


_RULES: Final[dict[str, Callable[[Statements], ast.Node]]] = {
    "abort": Statements.end_transaction,
    "analyse": Statements.vacuum,
    "analyze": Statements.vacuum,
    "begin": Statements.begin,
    "checkpoint": Statements.checkpoint,
    "close": Statements.close,
    "commit": Statements.end_transaction,
    "copy": Statements.copy,
    "create": Statements.create,
    "deallocate": Statements.deallocate,
    "declare": Statements.declare,
    "discard": Statements.discard,
    "end": Statements.end_transaction,
    "execute": Statements.execute,
    "explain": Statements.explain,
    "fetch": Statements.fetch,
    "listen": Statements.notify,
    "lock": Statements.lock,
    "move": Statements.fetch,
    "notify": Statements.notify,
    "prepare": Statements.prepare,
    "release": Statements.release,
    "reset": Statements.reset,
    "rollback": Statements.end_transaction,
    "savepoint": Statements.savepoint,
    "set": Statements.set,
    "show": Statements.show,
    "start": Statements.begin,
    "unlisten": Statements.notify,
    "vacuum": Statements.vacuum,
}
