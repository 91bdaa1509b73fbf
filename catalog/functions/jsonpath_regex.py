"""The pattern of LIKE_REGEX in a jsonpath. It is compiled when the path is parsed, and when it is evaluated."""

from __future__ import annotations

from catalog.functions.regex_engine import Regex, regex
from catalog.functions.regex_syntax import Options
from catalog.text_caches import remembering


@remembering(256)
def compiled_regex(pattern: str, flags: str) -> Regex:
    """Returns the compiled pattern of LIKE_REGEX. Raises 2201B."""
    if "q" in flags:
        return regex(pattern, Options(ignore_case="i" in flags, literal=True))
    options = Options(ignore_case="i" in flags, dot_excludes_newline="s" not in flags, anchors_at_lines="m" in flags)
    return regex(pattern, options)
