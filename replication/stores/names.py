"""Names of objects: relative paths of [a-zA-Z0-9._-] parts, joined by '/'.

Whoever builds a name from bad parts has a defect, so that is a ValueError and not an answer of the store. What stores
keep for themselves (uploads that are not finished) carries a '~', which no name can have.
"""

from __future__ import annotations

import re

MAX_NAME = 900  # bytes; S3 takes 1024, and a store's own prefix comes before it
_PART = re.compile(r"[a-zA-Z0-9._-]{1,240}")  # bytes; a file system takes 255


def check_name(name: str) -> str:
    """The name. Raises ValueError when it is not one; '.' and '..' are no parts."""
    if len(name) > MAX_NAME or not all(is_part(part) for part in name.split("/")):
        raise ValueError(f"not a name of an object: {name[:MAX_NAME]!r}")
    return name


def check_folder(prefix: str) -> str:
    """The prefix, '' (everything) or a name followed by '/'. Raises ValueError when it is neither."""
    if prefix:
        if not prefix.endswith("/"):
            raise ValueError(f"not a folder, which ends in '/': {prefix[:MAX_NAME]!r}")
        check_name(prefix[:-1])
    return prefix


def is_part(part: str) -> bool:
    """Whether a name may have this part between its slashes."""
    return _PART.fullmatch(part) is not None and part not in (".", "..")


def is_name(name: str) -> bool:
    """Whether `check_name` takes it: what a listing may show."""
    return len(name) <= MAX_NAME and all(is_part(part) for part in name.split("/"))
