"""Keeps pyarrow from importing pandas. pyarrow imports pandas, if it is installed, with the first array that it
creates. Shoal does not need pandas, and the import would take 30 MB and block the event loop, or a query, for 0.3 s."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


class _Refusal:
    """A finder of modules (sys.meta_path) that comes before the others."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("Shoal's processes do without pandas", name=name)
        return None


def refuse_pandas() -> None:
    """Refuses pandas in the whole process. Not used where Shoal is a library (shoal/embedded)."""
    sys.meta_path.insert(0, _Refusal)
