"""What a log store and its clients say to each other: HTTP/1.1, one request an operation.

    PUT    /objects/<name>            body: the object; Content-Length and X-Shoal-CRC32C of it are required
                                      201; 409 there is one; 507 full; 422 the body does not match its CRC
                                      X-Shoal-Append: 1    nobody else makes up the name: `ChangelogStore.append`.
                                      A server that does not know the header stores the object as any other
    GET    /objects/<name>            Range: bytes=a-b, of at most PIECE bytes       200, 206; 404; 416
    DELETE /objects/<name>            204, whether it was there or not
    GET    /folders/<prefix>?after=   200: {"objects": [[name, size], ...], "more": true}, at most PAGE objects
    DELETE /folders/<prefix>          204: a whole ledger at once

Answers that carry (a piece of) an object carry its CRC32C too. 422 to a GET: the object, or the
folder, is damaged on the server's disk. With a secret every request has the header
`Authorization: Bearer <secret>`, else 401. 503: the disk does not answer, or too many requests wait. The text of an
error is one line for people.
"""

from __future__ import annotations

import google_crc32c

PIECE = 4 << 20  # bytes of an object that one GET carries at most
PAGE = 1000
CRC = "X-Shoal-CRC32C"  # eight hexadecimal digits
APPEND = "X-Shoal-Append"


def crc_header(crc: int) -> str:
    """The value of the header."""
    return f"{crc:08x}"


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC32C of the bytes, or of what has this CRC followed by them."""
    return int(google_crc32c.extend(crc, data))
