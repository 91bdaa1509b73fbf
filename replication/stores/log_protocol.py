"""The protocol between a log store and its clients: HTTP/1.1, one request for each operation.

    PUT    /objects/<name>            body: the object; Content-Length and X-Shoal-CRC32C of it are required
                                      201; 409 there is one; 507 full; 422 the body does not match its CRC
                                      X-Shoal-Append: 1    nobody else makes up the name: `ChangelogStore.append`.
                                      A server that does not know the header stores the object as any other
    GET    /objects/<name>            Range: bytes=a-b, of at most PIECE bytes       200, 206; 404; 416
    POST   /objects                   body: ["<name>", ...], at most MANY of them    200: a frame for each that is there
                                      and whole, in their order: its index in the body, its size and the CRC32C of its
                                      name and its bytes (u32 each, little-endian), then its bytes; MANY_BYTES of
                                      frames at most, what does not fit is left out. 404 of a server that does not
                                      know it
    DELETE /objects/<name>            204, whether it was there or not
    GET    /folders/<prefix>?after=   200: {"objects": [[name, size], ...], "more": true}, at most PAGE objects
    DELETE /folders/<prefix>          204: a whole ledger at once

Answers with an object, or a piece of it, contain its CRC32C too. 422 to a GET: the object or the folder is damaged on
the server's disk. With a secret, every request has the header `Authorization: Bearer <secret>`, otherwise the answer is
401. 503: the disk does not answer, or too many requests wait. The text of an error is one line for people.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import google_crc32c

from replication.interface import MANY

PIECE = 4 << 20  # the maximum bytes of an object in one GET
PAGE = 1000
MANY_BYTES = 2 << 20  # of an answer with several objects
MANY_NAMES_BYTES = MANY * 1024  # of a request for several objects
CRC = "X-Shoal-CRC32C"  # eight hexadecimal digits
APPEND = "X-Shoal-Append"


def crc_header(crc: int) -> str:
    """The value of the header."""
    return f"{crc:08x}"


def crc32c(data: bytes, crc: int = 0) -> int:
    """The CRC32C of the bytes; with `crc`, of earlier bytes with this CRC followed by them."""
    return int(google_crc32c.extend(crc, data))


_FRAME = struct.Struct("<III")
FRAME = _FRAME.size  # bytes of a frame before the object's


def encode_frame(index: int, name: str, data: bytes) -> bytes:
    """Encodes one of several objects in an answer."""
    return _FRAME.pack(index, len(data), crc32c(data, crc32c(name.encode()))) + data


def decode_frames(names: Sequence[str], body: bytes) -> Iterator[tuple[int, bytes]]:
    """The objects of an answer, with their indexes in the request. Raises ValueError for an invalid answer."""
    at, least = 0, 0
    while at < len(body):
        if at + _FRAME.size > len(body):
            raise ValueError("it ends in the middle")
        index, size, crc = _FRAME.unpack_from(body, at)
        at += _FRAME.size
        if not least <= index < len(names):
            raise ValueError("it has objects that were not requested")
        if size > len(body) - at:
            raise ValueError("it ends in the middle")
        data = body[at : at + size]
        if crc32c(data, crc32c(names[index].encode())) != crc:
            raise ValueError(f"{names[index]} was damaged in transit")
        yield index, data
        at, least = at + size, index + 1
