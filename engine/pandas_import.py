"""pyarrow imports pandas with the first array that it makes, if pandas is installed. Nothing here uses it, and it would
cost 30 MB and keep the event loop, or a query's call, for 0.3 s. So a process of Shoal's own does without."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


class _Refusal:
    """A finder of modules (sys.meta_path) that comes first."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("Shoal's processes do without pandas", name=name)
        return None


def refuse_pandas() -> None:
    """For the whole process: not where Shoal is a library in somebody else's (shoal/embedded)."""
    sys.meta_path.insert(0, _Refusal)
