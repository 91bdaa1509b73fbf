"""The client side without I/O: frames out of bytes however they are cut, and messages that the server side reads."""

from __future__ import annotations

import random

import pytest

from catalog.errors import SqlError
from wire import client_core, core, messages
from wire.client_core import FrameStream, RowReader


def row(*values: bytes | None) -> bytes:
    parts = [len(values).to_bytes(2, "big")]
    for value in values:
        parts.append(b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value)
    return messages.message(b"D", b"".join(parts))


STREAM = b"".join(
    [
        messages.PARSE_COMPLETE,
        messages.parameter_status("TimeZone", "UTC"),
        *(row(str(n).encode(), None, b"x" * n) for n in range(50)),
        messages.command_complete("SELECT 50"),
        messages.message(b"d", b"copy" * 100),
        messages.message(b"d", b""),
        messages.READY["I"],
    ]
)


@pytest.mark.parametrize("seed", range(30))
def test_frames_do_not_depend_on_how_the_bytes_arrive(seed: int) -> None:
    choice = random.Random(seed)
    stream, reader = FrameStream(), RowReader(1000)
    given_out, position = b"", 0
    kinds: list[str] = []
    rows: list[list[bytes | None]] = []
    while position < len(STREAM):
        size = choice.choice((1, 3, 5, 100, 1000))
        stream.receive_data(STREAM[position : position + size])
        position += size
        while (frame := stream.next_frame()) is not None:
            given_out += frame.data
            if not kinds or kinds[-1] != chr(frame.kind):
                kinds.append(chr(frame.kind))
            if frame.kind == 0x44:
                rows += list(reader.rows(frame.data))
    assert given_out == STREAM
    assert kinds == ["1", "S", "D", "C", "d", "Z"]
    assert rows == [[str(n).encode(), None, b"x" * n] for n in range(50)]
    assert stream.at_boundary and stream.buffered_bytes == 0


def test_a_message_given_out_in_part_is_not_at_a_boundary() -> None:
    stream = FrameStream()
    stream.receive_data(row(b"x" * 100)[:50])
    frame = stream.next_frame()
    assert frame is not None and len(frame.data) == 50 and not stream.at_boundary
    stream.receive_data(row(b"x" * 100)[50:])
    assert stream.next_frame() is not None and stream.at_boundary


@pytest.mark.parametrize("data", [b"Z\0\0\0\x03", b"Z\x7f\0\0\0", b"D\0\0\0\0", b"d\xff\xff\xff\xff"])
def test_what_cannot_be_a_message_is_refused(data: bytes) -> None:
    stream = FrameStream()
    stream.receive_data(data)
    with pytest.raises(SqlError, match="08P01"):
        stream.next_frame()


def test_a_row_beyond_the_limit_is_refused() -> None:
    with pytest.raises(SqlError, match="54000"):
        list(RowReader(100).rows(row(b"x" * 200)))


MESSAGES = [
    client_core.query(b"SELECT 1"),
    client_core.parse(b"s", b"SELECT $1", (23, 25)),
    client_core.bind(b"p", b"s", [b"1", None, b""], (0, 1, 0), (1,)),
    client_core.bind(b"", b"", []),
    client_core.describe("S", b"s"),
    client_core.execute(b"p", 10),
    client_core.close("P", b"p"),
    client_core.SYNC,
    client_core.FLUSH,
]


@pytest.mark.parametrize("data", MESSAGES)
def test_the_servers_core_reads_what_the_client_writes(data: bytes) -> None:
    server = core.ProtocolCore()
    server.ready()
    server.receive_data(data)
    assert client_core.encode_event(server.next_event()) == data
    assert server.buffered_bytes == 0


def test_start_up_and_cancel_are_read_by_the_servers_core() -> None:
    server = core.ProtocolCore()
    server.receive_data(client_core.startup({"user": "u", "options": "-c a=b"}, 2))
    assert server.next_event() == core.Startup(2, {"user": "u", "options": "-c a=b"})
    server = core.ProtocolCore()
    server.receive_data(client_core.cancel_request(7, b"12345678"))
    assert server.next_event() == core.CancelRequest(7, b"12345678")


def test_an_error_keeps_its_fields() -> None:
    error = SqlError("23505", "twice", detail="d", hint="h", position=7, constraint="k", table="t", context="c")
    read = client_core.report_error(messages.error_response(error)[5:])
    assert vars(read) == vars(error)
