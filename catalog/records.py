"""Frozen dataclasses that are cheap to create.

The syntax tree of a new statement has hundreds of them. With `frozen=True`, `dataclasses` sets each field through
`object.__setattr__`, four times as slowly as by an assignment, in order to refuse later assignments. These dataclasses
are frozen only for mypy, which checks every module, and not at run time. They compare and hash by their fields.
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
        """Like `dataclasses.dataclass`, with the same options."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
