"""What an expression has become in the source of a plan's function."""

from __future__ import annotations

from catalog.records import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """The source of a compiled expression. `atom`: a name or literal that costs nothing to repeat. `place`: where it
    lies in a decoded row that is at hand as a whole: the row's name, how many columns it has, which one it is. `made`:
    a name of what was computed."""

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
