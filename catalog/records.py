"""Frozen dataclasses that are cheap to create.

A syntax tree is hundreds of them for each statement that is new. `dataclasses` makes those with `frozen=True` set each
field through `object.__setattr__`, four times as slowly as an assignment, only to refuse assignments later. These are
frozen to mypy, which checks every module, and plain at run time; they compare and hash by their fields as ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, **options: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, whose options it takes."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
