"""Names of objects: relative paths of [a-zA-Z0-9._-] parts, joined by '/'.

A name of invalid parts is a defect of the caller, so it raises ValueError and not an error of the store. Internal files
of stores (unfinished uploads) contain a '~', which no name has.
"""

from __future__ import annotations

import re

MAX_NAME = 900  # bytes; S3 allows 1024, including the store's own prefix
_PART = re.compile(r"[a-zA-Z0-9._-]{1,240}")  # bytes; a file system allows 255


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
    """Whether `check_name` accepts it: only such names are listed."""
    return len(name) <= MAX_NAME and all(is_part(part) for part in name.split("/"))
