"""CopyData messages without a Python loop over them.

A client sends COPY data as millions of small messages: 'd', a length of four bytes, a piece of text (often one row).
The text formats of COPY hold no zero bytes, so in a buffer of such messages every b"d\\0\\0" is the start of a header
(for messages below 64 KiB). NumPy finds these candidates, checks that each one's length leads exactly to the next,
and cuts the headers out with one mask. Where the check fails (binary data, larger messages), the caller takes the
messages one by one, as any other.
"""

from __future__ import annotations

import numpy as np

MINIMUM = 4096  # below this the plain loop is as fast


def strip_headers(buffer: bytes, start: int) -> tuple[bytes, int]:
    """The payload of the run of whole CopyData messages that begins at `start`, and the end of the run.

    (b"", start) if the run cannot be found in this way; the caller then parses message by message.
    """
    view = np.frombuffer(buffer, np.uint8)[start:]
    heads = np.flatnonzero((view[:-4] == 0x64) & (view[1:-3] == 0) & (view[2:-2] == 0)) if len(view) > 8 else view[:0]
    if len(heads) < 2 or heads[0] != 0:
        return b"", start
    lengths = (view[heads + 3].astype(np.int64) << 8) + view[heads + 4]
    ends = heads + 1 + lengths
    linked = ends[:-1] == heads[1:]
    whole = len(linked) if linked.all() else int(np.argmin(linked))
    # a proven header follows `whole` messages; the last one of an unbroken chain may be complete as well.
    if whole == len(linked) and ends[-1] <= len(view) and lengths[-1] >= 4:
        whole += 1
    if whole < 2 or (lengths[:whole] < 4).any():
        return b"", start
    end = int(ends[whole - 1])
    keep = np.ones(end, np.bool_)
    keep[(heads[:whole, None] + np.arange(5)).ravel()] = False
    return view[:end][keep].tobytes(), start + end
