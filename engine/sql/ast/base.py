"""What every tree has: the node with its place in the text, and the statements of one query string."""

from __future__ import annotations

from catalog.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    location: int = -1


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a query string: its tree, and where it lies in the string (characters, from 0). `whole`: the
    query string, which is what the system views show. `translation`: the query in it as it was carried over from
    another dialect; then `text` and `whole` are PostgreSQL's too."""

    tree: Node
    text: str
    offset: int = 0
    parameters: int = 0  # the highest $n in it
    whole: str = ""
    constants: bool = True  # whether there may be any in it
    translation: str = ""

    def of(self, tree: Node) -> Statement:
        """The statement that this one holds (DECLARE, PREPARE, EXPLAIN), at the same place of the same string."""
        return Statement(tree, self.text, self.offset, whole=self.whole, translation=self.translation)
