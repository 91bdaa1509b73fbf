"""The compiled form of an expression in the source of a plan's function."""

from __future__ import annotations

from catalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """The source of a compiled expression. `atom`: a name or literal that costs nothing to repeat. `place`: its place
    in a decoded row that is available as a whole: the row's name, its number of columns, the column. `made`: a name of
    a computed value."""

    source: str
    nullable: bool = True
    atom: bool = False
    place: tuple[str, int, int] | None = None
    made: bool = False

    def with_name(self, name: str) -> Value:
        """The value under a name that is bound to it."""
        return Value(name, self.nullable, atom=True, made=True)


NULL = Value("None", nullable=True, atom=True)
TRUE = Value("True", nullable=False, atom=True)
