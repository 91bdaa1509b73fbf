"""The base class of nodes, and the statements of a query string."""

from __future__ import annotations

from catalog.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    location: int = -1


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a query string: its tree and its position in the string (characters from 0). `whole`: the query
    string, which the system views show. `translation`: the translation of a query from another dialect; `text` and
    `whole` are PostgreSQL's then, too."""

    tree: Node
    text: str
    offset: int = 0
    parameters: int = 0  # the highest $n in it
    whole: str = ""
    constants: bool = True  # whether it may contain constants
    translation: str = ""

    def of(self, tree: Node) -> Statement:
        """The statement inside this one (DECLARE, PREPARE, EXPLAIN), with the same position in the same string."""
        return Statement(tree, self.text, self.offset, whole=self.whole, translation=self.translation)
