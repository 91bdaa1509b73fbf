"""ICU's collations and case mappings, from the C library that PostgreSQL uses too.

ctypes calls the library, whose interface (ucol_open, ucol_getSortKey, u_strToUpper, ...) is stable, so no code is
compiled. The library is loaded when the first ICU collation is used, from the first of these:

    libicui18n    of the system, in any version: most Linux machines have it, because PostgreSQL and Node.js need it
    icu4py        a package whose wheels contain the library (the extra `shoal[icu]`)

The names of functions contain the library's version (`ucol_open_72`), and so does the name of its file. Sort keys are
comparable only with keys of the same collation *version* (`version_of`), so an index stores the version of its keys
(catalog/collations.py).

Calls do not release the interpreter lock (`PyDLL`): they take about a microsecond, less than releasing it takes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import pathlib
import re
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from catalog.errors import SqlError

_ROOM = 512  # bytes; longer keys get a buffer of their own
_FAILED = 1  # U_ZERO_ERROR is 0, warnings are negative, errors positive
_BUFFER_OVERFLOW = 15
_INSTALL = "Install the ICU libraries (Debian: libicu72, Fedora: libicu), or Shoal with its extra: shoal[icu]."


class _Library(NamedTuple):
    """The functions of the library that this module calls."""

    open: Callable[..., int | None]
    sort_key: Callable[..., int]
    version: Callable[..., None]
    upper: Callable[..., int]
    lower: Callable[..., int]
    title: Callable[..., int]
    error_name: Callable[..., bytes]


@lru_cache(1)
def _library() -> _Library | None:
    for path in _candidates():
        try:
            library = ctypes.PyDLL(path)
        except OSError:
            continue
        found = _bind_functions(library, path)
        if found is not None:
            return found
    return None


def _candidates() -> Iterator[str]:
    for name in ("icui18n", "icucore"):
        path = ctypes.util.find_library(name)
        if path:
            yield path
    package = importlib.util.find_spec("icu4py")
    if package is not None and package.origin is not None:
        beside = pathlib.Path(package.origin).parent.parent / "icu4py.libs"
        yield from map(str, sorted(beside.glob("libicui18n*")))


def _bind_functions(library: ctypes.CDLL, path: str) -> _Library | None:
    digits = re.search(r"(?:\.so\.|icui18n\.|icu)(\d+)", pathlib.Path(path).name)
    for suffix in ("", f"_{digits.group(1)}" if digits else ""):
        if hasattr(library, f"ucol_open{suffix}"):
            return _with_types(library, suffix)
    return None


def _with_types(library: ctypes.CDLL, suffix: str) -> _Library:
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    status = ctypes.POINTER(ctypes.c_int)

    def function(name: str, result: object, *arguments: object) -> Callable[..., int]:
        found = getattr(library, name + suffix)
        found.restype, found.argtypes = result, arguments
        return found  # type: ignore[no-any-return]

    mapping = (pointer, size, text, size, text, status)
    return _Library(
        function("ucol_open", pointer, text, status),
        function("ucol_getSortKey", size, pointer, text, size, pointer, size),
        function("ucol_getVersion", None, pointer, pointer),  # type: ignore[arg-type]
        function("u_strToUpper", size, *mapping),
        function("u_strToLower", size, *mapping),
        function("u_strToTitle", size, pointer, size, text, size, pointer, text, status),
        function("u_errorName", text, ctypes.c_int),  # type: ignore[arg-type]
    )


def _require() -> _Library:
    """The library. Raises 0A000 if the machine has no ICU."""
    found = _library()
    if found is None:
        raise SqlError("0A000", "ICU collations are not available: this machine has no ICU library", hint=_INSTALL)
    return found


def is_available() -> bool:
    return _library() is not None


@lru_cache(1024)
def _collator(locale: str) -> int:
    """The collator of a locale, as a pointer. Collators are few, and never closed. Raises 0A000, 22023."""
    library = _require()
    status = ctypes.c_int(0)
    found = library.open(locale.encode(), ctypes.byref(status))
    if status.value >= _FAILED or not found:
        reason = bytes(library.error_name(status.value)).decode()
        raise SqlError("22023", f'could not open collator for locale "{locale}": {reason}')
    return found


@lru_cache(1024)
def version_of(locale: str) -> str:
    """The version of a locale's collator as pg_collation.collversion shows it: '153.120'. Raises 0A000, 22023."""
    parts = (ctypes.c_uint8 * 4)()
    _require().version(_collator(locale), ctypes.addressof(parts))
    numbers = list(parts)
    while len(numbers) > 2 and not numbers[-1]:
        numbers.pop()
    return ".".join(map(str, numbers))


@lru_cache(1024)
def sort_key_maker(locale: str) -> Callable[[str], bytes]:
    """Returns a function value -> sort key: bytes that compare as the locale's collator compares the values. They end
    in a NUL and contain no other one. Raises 0A000, 22023."""
    get, collator, room = _require().sort_key, ctypes.c_void_p(_collator(locale)), _Room()

    def sort_key(value: str) -> bytes:
        data = value.encode("utf-16-le", "surrogatepass")
        units = len(data) >> 1
        buffer = room.buffer
        needed = get(collator, data, units, buffer, _ROOM)
        if needed > _ROOM:
            buffer = ctypes.create_string_buffer(needed)
            get(collator, data, units, buffer, needed)
        return cast(bytes, buffer[:needed])  # a slice of c_char is bytes, unlike in the stubs

    return sort_key


class _Room(threading.local):
    """A thread's buffer for keys. Each thread has its own, because another thread may run before the key is read."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_ROOM)


def upper(value: str, locale: str) -> str:
    """Converts to upper case by the rules of a locale: 'ß' becomes 'SS', 'i' in Turkish 'İ'."""
    return _map(_require().upper, value, locale.encode())


def lower(value: str, locale: str) -> str:
    """Converts to lower case by the rules of a locale."""
    return _map(_require().lower, value, locale.encode())


def title(value: str, locale: str) -> str:
    """initcap: converts the first letter of each word to title case, by the rules of a locale."""
    return _map(_require().title, value, None, locale.encode())


def _map(call: Callable[..., int], value: str, *how: object) -> str:
    data = value.encode("utf-16-le", "surrogatepass")
    room = len(data) // 2
    while True:
        buffer = ctypes.create_string_buffer(2 * room + 2)
        status = ctypes.c_int(0)
        needed = call(buffer, room, data, len(data) // 2, *how, ctypes.byref(status))
        if status.value < _FAILED:
            return buffer.raw[: 2 * needed].decode("utf-16-le", "surrogatepass")
        if status.value != _BUFFER_OVERFLOW:
            raise SqlError("22000", f"case conversion failed: {bytes(_require().error_name(status.value)).decode()}")
        room = needed
