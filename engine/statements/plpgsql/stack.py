"""The lines of context for the place where a function is: for notices, and for GET DIAGNOSTICS.

An error collects its lines on its way out (errors.py). A notice does not go out, so its lines are read from Python's
frames, from the inside outwards. A function whose statement runs another one is in a greenlet that waits; the frames of
the event loop's greenlet lead there, because `suspend.finish` awaits that statement.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from greenlet import getcurrent, greenlet

from engine.statements.plpgsql import errors, suspend
from engine.statements.plpgsql.compile import BODY_FILE
from engine.statements.plpgsql.frame_cursors import open_portal
from engine.statements.plpgsql.nested import NestedStatements

_RUNNING = (NestedStatements.rows.__code__, open_portal.__code__)


def lines_around(depth: int = 1) -> list[str]:
    """The lines of all calls around the caller, from the inside outwards. `depth`: of Python's frames to pass over."""
    found: list[str] = []
    inner = None
    for frame in _frames(sys._getframe(depth)):
        line = _line_of(frame, inner)
        if line:
            found.append(line)
        inner = frame
    return found


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those around it, in all greenlets."""
    current: greenlet | None = getcurrent()
    passed = {current}
    while current is not None:
        while frame is not None:
            yield frame
            if frame.f_code is suspend.finish.__code__:
                waiting = frame.f_locals["running"]
                if waiting not in passed:
                    passed.add(waiting)
                    yield from _chain(waiting.gr_frame)
            frame = frame.f_back
        current = current.parent
        frame = None if current is None else current.gr_frame


def _chain(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _line_of(frame: FrameType, inner: FrameType | None) -> str:
    """The line that a frame stands for, which has called `inner`; '' for most."""
    code = frame.f_code
    if code.co_filename.startswith(BODY_FILE):
        program = frame.f_locals["frame"].program
        return errors.context_line(program.shown, *errors.place_at(program, frame.f_lineno))
    if inner is None or inner.f_code not in _RUNNING or "self" not in frame.f_locals:
        return ""
    known = frame.f_locals
    if "number" in known and "routine" in known:
        return f'SQL function "{known["routine"].name}" statement {known["number"]}'
    if "number" in known:
        return str(known["self"].program.contexts[known["number"]].line)
    return f'SQL statement "{known["text"]}"' if "text" in known and not known.get("is_loop") else ""
