"""Text search objects: CREATE and ALTER TEXT SEARCH CONFIGURATION, DICTIONARY, PARSER, TEMPLATE."""

from __future__ import annotations

from engine.sql import ast
from engine.sql.parser.definitions import Definitions


class TextSearch(Definitions):
    """DefineStmt, AlterTSDictionaryStmt, AlterTSConfigurationStmt."""

    def _text_search_kind(self) -> str:
        self.expect("text", "search")
        return self.expect_one_of("configuration", "dictionary", "parser", "template")

    def create_text_search(self, start: int) -> ast.Node:
        """After CREATE."""
        kind = self._text_search_kind()
        return ast.CreateTextSearchStmt(kind, self.any_name(), self.definition(), location=start)

    def alter_text_search(self, start: int) -> ast.Node:
        """After ALTER."""
        kind = self._text_search_kind()
        name = self.any_name()
        key = self._curr.key
        if key == "(" and kind == "dictionary":
            return ast.AlterTextSearchStmt(kind, name, "options", definition=self.definition(), location=start)
        if kind == "configuration" and key in ("add", "drop"):
            return self._change_mapping(name, self.advance().key, start)
        if kind == "configuration" and key == "alter":
            self.advance()
            return self._alter_mapping(name, start)
        if key == "owner" and kind not in ("configuration", "dictionary"):
            self.fail()
        action, value = self.change_of_any()
        return ast.AlterTextSearchStmt(kind, name, action, value, location=start)

    def _change_mapping(self, name: tuple[str, ...], action: str, start: int) -> ast.Node:
        self.expect("mapping")
        if_exists = action == "drop" and self.if_exists()
        self.expect("for")
        tokens = self._token_types()
        dictionaries: tuple[tuple[str, ...], ...] = ()
        if action == "add":
            self.expect("with")
            dictionaries = self._dictionaries()
        action = "drop mapping" if action == "drop" else action
        return ast.AlterTextSearchStmt(
            "configuration", name, action, tokens=tokens, dictionaries=dictionaries, if_exists=if_exists, location=start
        )

    def _alter_mapping(self, name: tuple[str, ...], start: int) -> ast.Node:
        """ALTER MAPPING [FOR tokens] REPLACE old WITH new, or FOR tokens WITH dictionaries."""
        self.expect("mapping")
        tokens: tuple[str, ...] = ()
        if self.accept("for"):
            tokens = self._token_types()
        action = "replace" if not tokens or self._curr.key == "replace" else "alter"
        if action == "replace":
            self.expect("replace")
            old = self.any_name()
            self.expect("with")
            dictionaries: tuple[tuple[str, ...], ...] = (old, self.any_name())
        else:
            self.expect("with")
            dictionaries = self._dictionaries()
        return ast.AlterTextSearchStmt(
            "configuration", name, action, tokens=tokens, dictionaries=dictionaries, location=start
        )

    def _token_types(self) -> tuple[str, ...]:
        found = [self.column_name()]
        while self.accept(","):
            found.append(self.column_name())
        return tuple(found)

    def _dictionaries(self) -> tuple[tuple[str, ...], ...]:
        found = [self.any_name()]
        while self.accept(","):
            found.append(self.any_name())
        return tuple(found)
