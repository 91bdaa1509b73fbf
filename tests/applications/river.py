"""river: a queue of jobs for Go."""

from tests.applications.base import GoApplication

_MODULE = "github.com/riverqueue/river"
_PARTS = (_MODULE, f"{_MODULE}/riverdriver/riverpgxv5")
APPLICATION = GoApplication("river", "0.51.2", tuple(f"{part}@v0.51.2" for part in _PARTS))
