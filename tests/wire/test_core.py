"""The protocol core by itself: bytes in, events out."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SqlError
from wire import client_core, core
from wire.copy_frames import MINIMUM, strip_headers
from wire.core import NEED_DATA, ProtocolCore


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def startup(**parameters: str) -> bytes:
    body = struct.pack(">i", core.PROTOCOL_3_0)
    body += b"".join(part.encode() + b"\0" for pair in parameters.items() for part in pair) + b"\0"
    return struct.pack(">i", len(body) + 4) + body


BIND = b"p\0s\0" + struct.pack(">hhh", 2, 1, 0) + struct.pack(">h", 2)
BIND += struct.pack(">i", 2) + b"\0\7" + struct.pack(">i", -1) + struct.pack(">hh", 1, 1)

CONVERSATION = (
    message(b"Q", b"SELECT 1\0"),
    message(b"P", b"s\0SELECT $1, $2\0" + struct.pack(">hii", 2, 23, 0)),
    message(b"B", BIND),
    message(b"D", b"Pp\0"),
    message(b"E", b"p\0" + struct.pack(">i", 50)),
    message(b"C", b"Ss\0"),
    message(b"H"),
    message(b"S"),
    message(b"F", struct.pack(">IHHHi4siH", 957, 1, 1, 2, 4, bytes(4), -1, 1)),
    message(b"X"),
)


def described(event: object) -> str:
    """An event with its fields, for comparing."""
    names = getattr(type(event), "__slots__", ())
    return f"{type(event).__name__}({', '.join(f'{name}={getattr(event, name)!r}' for name in names)})"


def events(started: ProtocolCore) -> list[str]:
    found = []
    while (event := started.next_event()) is not NEED_DATA:
        found.append(described(event))
    return found


def ready() -> ProtocolCore:
    made = ProtocolCore()
    made.ready()
    return made


def test_every_message_becomes_its_event() -> None:
    machine = ready()
    machine.receive_data(b"".join(CONVERSATION))
    assert events(machine) == [
        "Query(sql=b'SELECT 1')",
        "Parse(name=b's', sql=b'SELECT $1, $2', types=(23, 0))",
        "Bind(execution=None, parameter_formats=(1, 0), parameters=[b'\\x00\\x07', None], "
        "portal=b'p', result_formats=(1,), statement=b's')",
        "Describe(kind='P', name=b'p')",
        "Execute(limit=50, portal=b'p')",
        "Close(kind='S', name=b's')",
        "Flush()",
        "Sync()",
        "FunctionCall(function=957, formats=(1,), arguments=[b'\\x00\\x00\\x00\\x00', None], result_format=1)",
        "Terminate()",
    ]
    assert machine.buffered_bytes == 0


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
def test_pieces_of_any_size_give_the_same_events(size: int) -> None:
    whole = ready()
    data = b"".join(CONVERSATION)
    whole.receive_data(data)
    expected = events(whole)
    machine = ready()
    found = []
    for start in range(0, len(data), size):
        machine.receive_data(data[start : start + size])
        found += events(machine)
    assert found == expected


def test_a_split_at_every_byte_gives_the_same_events() -> None:
    data = b"".join(CONVERSATION)
    whole = ready()
    whole.receive_data(data)
    expected = events(whole)
    for cut in range(len(data) + 1):
        machine = ready()
        machine.receive_data(data[:cut])
        found = events(machine)
        machine.receive_data(data[cut:])
        assert found + events(machine) == expected, cut


def test_a_startup_packet_split_at_every_byte() -> None:
    data = startup(user="u", database="d") + CONVERSATION[0]
    for cut in range(len(data) + 1):
        machine = ProtocolCore()
        found = []
        for part in (data[:cut], data[cut:]):
            machine.receive_data(part)
            event = machine.next_event()
            if event is NEED_DATA:
                continue
            found.append(described(event))
            if isinstance(event, core.Startup):
                machine.ready()
                found += events(machine)
        assert found == ["Startup(minor=0, parameters={'user': 'u', 'database': 'd'})", "Query(sql=b'SELECT 1')"], cut


def refusal(machine: ProtocolCore, data: bytes) -> SqlError:
    machine.receive_data(data)
    with pytest.raises(SqlError) as caught:
        events(machine)
    assert caught.value.severity == "FATAL"
    return caught.value


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, core.MESSAGE_LIMIT + 1])
def test_a_length_that_cannot_be_is_fatal_before_anything_is_buffered(length: int) -> None:
    assert refusal(ready(), b"D" + struct.pack(">i", length)).sqlstate == "08P01"


def test_a_query_has_a_limit_of_its_own() -> None:
    assert refusal(ready(), b"Q" + struct.pack(">i", core.QUERY_LIMIT + 1)).sqlstate == "08P01"


@pytest.mark.parametrize("kind", [b"z", b"\0", b"\xff", b"1", b"p"])
def test_unknown_messages_are_fatal(kind: bytes) -> None:
    error = refusal(ready(), message(kind))
    assert error.sqlstate == "08P01"
    assert error.message == f"invalid frontend message type {kind[0]}"


@pytest.mark.parametrize(
    "data",
    [
        message(b"Q"),
        message(b"Q", b"SELECT 1"),
        message(b"P", b"s\0SELECT 1"),
        message(b"P", b"s\0SELECT 1\0\0\5"),
        message(b"B", BIND[:-1]),
        message(b"B", BIND + b"\0"),
        message(b"B", b"p\0s\0" + struct.pack(">hhi", 0, 1, 1000) + b"x" + struct.pack(">h", 0)),
        message(b"D", b"X\0"),
        message(b"D", b"Sname"),
        message(b"D", b"Sname\0more"),
        message(b"E", b"p\0" + struct.pack(">ii", 0, 0)),
        message(b"C", b""),
        message(b"E", b"p\0\0\0"),
        message(b"E", b"p"),
    ],
)
def test_bodies_that_are_cut_or_too_long_are_fatal(data: bytes) -> None:
    assert refusal(ready(), data).sqlstate == "08P01"
    # The bytes of a next message must never be read as part of this one.
    assert refusal(ready(), data + message(b"Q", b"SELECT 1\0") * 3).sqlstate == "08P01"


def test_after_an_error_everything_up_to_sync_is_dropped() -> None:
    machine = ready()
    machine.receive_data(b"".join(CONVERSATION[:2]))
    machine.next_event()
    machine.error()
    machine.receive_data(b"".join((*CONVERSATION[2:8], CONVERSATION[0])))
    assert events(machine) == ["Sync()", "Query(sql=b'SELECT 1')"]


def test_terminate_is_heard_while_skipping() -> None:
    machine = ready()
    machine.error()
    machine.receive_data(CONVERSATION[0] + message(b"X"))
    assert events(machine) == ["Terminate()"]


def test_copy_messages_outside_copy_are_ignored() -> None:
    machine = ready()
    machine.receive_data(message(b"d", b"1\n") + message(b"c") + message(b"f", b"no\0") + CONVERSATION[0])
    assert events(machine) == ["Query(sql=b'SELECT 1')"]


def test_during_copy_only_its_messages_may_come() -> None:
    machine = ready()
    machine.begin_copy()
    machine.receive_data(message(b"d", b"1\n") + message(b"H") + message(b"S") + message(b"c"))
    assert events(machine) == ["CopyData(data=b'1\\n')", "CopyDone()"]
    assert "unexpected message type 0x51" in refusal(machine, CONVERSATION[0]).message


@pytest.mark.parametrize("length", [-1, 0, 7, 10_001, 2**31 - 1])
def test_startup_packets_of_impossible_length(length: int) -> None:
    assert refusal(ProtocolCore(), struct.pack(">ii", length, core.PROTOCOL_3_0)).sqlstate == "08P01"


@pytest.mark.parametrize(
    "body",
    [b"user\0u\0", b"user\0\0", b"user", b"", b"user\0\xff\0\0", b"\0u\0\0"],
    ids=["end", "value", "name", "empty", "utf8", "early"],
)
def test_startup_packets_of_a_wrong_layout(body: bytes) -> None:
    packet = struct.pack(">ii", len(body) + 8, core.PROTOCOL_3_0) + body
    assert refusal(ProtocolCore(), packet).sqlstate == "08P01"


def test_an_old_protocol_is_refused_by_name() -> None:
    error = refusal(ProtocolCore(), struct.pack(">ii", 9, 2 << 16) + b"\0")
    assert (error.sqlstate, error.message) == (
        "0A000",
        "unsupported frontend protocol 2.0: server supports 3.0 to 3.2",
    )


@pytest.mark.parametrize(("code", "kind"), [(core.SSL_REQUEST, "ssl"), (core.GSS_REQUEST, "gss")])
def test_bytes_behind_an_encryption_request_are_fatal(code: int, kind: str) -> None:
    machine = ProtocolCore()
    machine.receive_data(struct.pack(">ii", 8, code))
    assert events(machine) == [f"EncryptionRequest(kind='{kind}')"]
    machine.receive_data(startup(user="u"))
    assert isinstance(machine.next_event(), core.Startup)
    error = refusal(ProtocolCore(), struct.pack(">ii", 8, code) + startup(user="u"))
    assert (error.sqlstate, error.message) == ("08P01", "received unencrypted data after SSL request")


def test_a_cancel_request_carries_the_key() -> None:
    machine = ProtocolCore()
    machine.receive_data(struct.pack(">iii", 16, core.CANCEL_REQUEST, 77) + b"abcd")
    assert events(machine) == ["CancelRequest(process_id=77, secret=b'abcd')"]


# ---- COPY frames ------------------------------------------------------------------------------------------------


def plain(buffer: bytes) -> bytes:
    """The payload of whole CopyData messages, one by one."""
    position, parts = 0, []
    while len(buffer) - position >= 5 and buffer[position] == ord("d"):
        (length,) = struct.unpack_from(">i", buffer, position + 1)
        if length < 4 or position + 1 + length > len(buffer):
            break
        parts.append(buffer[position + 5 : position + 1 + length])
        position += 1 + length
    return b"".join(parts)


PAYLOADS = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([b"", b"d", b"d\0\0\0\7", b"\0\0d\0\0", b"abc\tdef\n", b"d\0\0" * 5, b"x" * 300]),
        st.binary(min_size=0, max_size=3).map(lambda tail: b"row\t1\n" * 20 + tail),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(PAYLOADS, st.integers(0, 40), st.binary(max_size=8))
def test_stripping_headers_equals_the_plain_loop(payloads: list[bytes], cut: int, tail: bytes) -> None:
    buffer = b"".join(message(b"d", payload) for payload in payloads)
    buffer = (buffer[: len(buffer) - cut] if cut < len(buffer) else buffer) + tail
    data, end = strip_headers(buffer, 0)
    assert plain(buffer[:end]) == data
    assert plain(buffer) == data + plain(buffer[end:])


@settings(max_examples=100, deadline=None)
@given(PAYLOADS, st.lists(st.integers(1, 5000), min_size=1, max_size=10))
def test_copy_data_arrives_whole_however_it_is_cut(payloads: list[bytes], cuts: list[int]) -> None:
    rows = [b"line %d\twith text\n" % number for number in range(400)]
    data = b"".join(message(b"d", part) for part in (*rows, *payloads, *rows)) + message(b"c")
    assert len(data) > 2 * MINIMUM
    machine = ready()
    machine.begin_copy()
    received, position, done = [], 0, False
    for size in cuts * (len(data) // sum(cuts) + 1):
        machine.receive_data(data[position : position + size])
        position += size
        while (event := machine.next_event()) is not NEED_DATA:
            if isinstance(event, core.CopyData):
                received.append(event.data)
            done = done or event is core.COPY_DONE
    assert done
    assert b"".join(received) == b"".join((*rows, *payloads, *rows))


def test_a_large_copy_data_is_handed_on_as_it_arrives() -> None:
    machine = ready()
    machine.begin_copy()
    whole = message(b"d", b"x" * 10_000 + b"y" * 10_000) + message(b"d", b"z" * 10_000) + message(b"c")
    received = []
    for start in range(0, len(whole), 6_000):
        machine.receive_data(whole[start : start + 6_000])
        while isinstance(event := machine.next_event(), core.CopyData):
            received.append(event.data)
        assert not machine.buffered_bytes or event is core.COPY_DONE or machine.buffered_bytes < MINIMUM
    assert event is core.COPY_DONE
    assert b"".join(received) == b"x" * 10_000 + b"y" * 10_000 + b"z" * 10_000
    assert len(received) > 3


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("cut", [6_000, 20_001, 20_005, 20_008])
def test_what_is_left_of_a_copy_data_is_dropped_when_the_copy_has_failed(extended: bool, cut: int) -> None:
    machine = ready()
    machine.begin_copy()
    query = message(b"Q", b"select 1\0")
    whole = message(b"d", query * 1000 + b"\n" * (20_000 - 1000 * len(query))) + message(b"c") + message(b"S") + query
    machine.receive_data(whole[:5_000])
    assert isinstance(machine.next_event(), core.CopyData)
    machine.end_copy(failed=True, extended=extended)
    assert machine.whole_query(query) is None
    found = []
    for part in (whole[5_000:cut], whole[cut:]):
        machine.receive_data(part)
        found += events(machine)
    assert found == ["Sync()", "Query(sql=b'select 1')"]


@given(st.lists(st.sampled_from([b"a", b"b" * 1000, b"c" * 200_000]), max_size=6), st.integers(20_000, 150_000))
def test_long_messages_are_whole_however_they_are_cut(texts: list[bytes], size: int) -> None:
    whole = b"".join(message(b"Q", text + b"\0") for text in texts)
    machine, found = ready(), []
    for start in range(0, len(whole), size):
        machine.receive_data(whole[start : start + size])
        while True:
            seen, taken = machine.peek()
            event = machine.next_event()
            assert (event is NEED_DATA) == (not seen) == (not taken)
            if event is NEED_DATA:
                break
            assert described(event) == described(seen[0])
            found.append(described(event))
    assert found == [f"Query(sql={text!r})" for text in texts]
    assert machine.take_rest() == b""


def test_a_long_message_that_is_not_whole_is_given_back_with_all_of_its_parts() -> None:
    whole = message(b"Q", b"x" * 100_000 + b"\0")
    machine = ready()
    for start in range(0, 90_000, 10_000):
        machine.receive_data(whole[start : start + 10_000])
        assert machine.next_event() is NEED_DATA
    assert machine.buffered_bytes == 90_000
    assert machine.take_rest() == whole[:90_000]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=30), st.sampled_from(CONVERSATION)), max_size=12), st.booleans())
def test_any_bytes_give_events_or_a_fatal_error(parts: list[bytes], started: bool) -> None:
    machine = ready() if started else ProtocolCore()
    try:
        for part in parts:
            machine.receive_data(part)
            for _ in range(1000):
                if machine.next_event() is NEED_DATA:
                    break
    except SqlError as error:
        assert error.severity == "FATAL"


def test_a_bind_knows_whether_a_whole_execution_follows() -> None:
    bind = message(b"B", b"\0s\0" + b"\0\0" * 3)
    rest = message(b"E", b"\0" + bytes(4)) + message(b"S", b"")
    described = message(b"D", b"P\0") + rest
    for follows, whole in ((rest, False), (described, True), (rest[:-1], None), (b"", None)):
        machine = ready()
        machine.receive_data(bind + follows)
        event = machine.next_event()
        assert isinstance(event, core.Bind)
        if whole is None:
            assert event.execution is None
            continue
        assert event.execution is not None and event.execution.described is whole
        machine.skip(event.execution)
        assert machine.next_event() is core.NEED_DATA


TAILS = (
    message(b"E", b"\0" + bytes(4)) + message(b"S", b""),
    message(b"D", b"P\0") + message(b"E", b"\0" + bytes(4)) + message(b"S", b""),
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([b"", b"s", b"S_1"]),
    st.lists(st.sampled_from([0, 1]), max_size=2),
    st.lists(st.one_of(st.none(), st.binary(max_size=6)), max_size=3),
    st.lists(st.sampled_from([0, 1]), max_size=2),
    st.sampled_from(TAILS),
    st.data(),
)
def test_a_known_execution_is_read_as_the_long_way_reads_it(
    name: bytes,
    formats: list[int],
    parameters: list[bytes | None],
    results: list[int],
    tail: bytes,
    data: st.DataObject,
) -> None:
    """Whatever bytes come: `whole_execution` gives what Bind has, or nothing; never something else."""

    def codes(values: list[int]) -> bytes:
        return struct.pack(f">H{len(values)}H", len(values), *values)

    def execution(values: list[bytes | None]) -> bytes:
        body = b"\0" + name + b"\0" + codes(formats) + struct.pack(">H", len(values))
        for value in values:
            body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
        return message(b"B", body + codes(results)) + tail

    machine = ready()
    machine.receive_data(execution(parameters))
    bind = machine.next_event()
    assert isinstance(bind, core.Bind) and bind.execution is not None
    machine.skip(bind.execution)
    again = machine.whole_execution(execution(parameters))
    assert again == (bind.execution, parameters)

    changed = bytearray(execution(parameters))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    changed[0:1] = b"B"
    found = machine.whole_execution(bytes(changed))
    if found is not None:
        machine.receive_data(bytes(changed))
        long = machine.next_event()
        assert isinstance(long, core.Bind) and long.parameters == found[1] and long.execution is found[0]
        machine.skip(found[0])
        assert machine.next_event() is core.NEED_DATA


@pytest.mark.parametrize("wrong", [1, 4, 40, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("place", [0, 1])
def test_a_parameter_that_is_longer_than_its_message_is_not_taken_whole(place: int, wrong: int) -> None:
    def execution(lengths: list[int]) -> bytes:
        values = b"".join(struct.pack(">i", length) + b"1234" for length in lengths)
        return message(b"B", b"\0s\0" + struct.pack(">HH", 0, 2) + values + b"\0\0") + TAILS[1]

    machine = ready()
    machine.receive_data(execution([4, 4]))
    bind = machine.next_event()
    assert isinstance(bind, core.Bind) and bind.execution is not None
    machine.skip(bind.execution)
    assert machine.whole_execution(execution([4, 4])) == (bind.execution, [b"1234", b"1234"])
    lengths = [4, 4]
    lengths[place] = min(4 + wrong, (1 << 31) - 1)
    assert machine.whole_execution(execution(lengths)) is None


@given(st.binary(max_size=20), st.integers(-2, 2))
def test_a_query_alone_is_taken_whole_only_if_it_is_one(text: bytes, wrong: int) -> None:
    machine = ready()
    data = b"Q" + struct.pack(">i", len(text) + 5 + wrong) + text + b"\0"
    assert machine.whole_query(data) == (text if not wrong else None)
    assert machine.whole_query(message(b"Q", b"x")) is None  # not ended by a zero byte
    machine.receive_data(b"Q")
    assert machine.whole_query(message(b"Q", b"x\0")) is None  # it continues what is there


def test_peeking_takes_nothing() -> None:
    reader = core.ProtocolCore()
    reader.ready()
    data = client_core.parse(b"", b"SELECT 1") + client_core.SYNC + client_core.query(b"SELECT 2")
    reader.receive_data(data)
    for _ in range(2):
        events, size = reader.peek()
        assert [type(event) for event in events] == [core.Parse, core.Sync]
        assert size == len(data) - len(client_core.query(b"SELECT 2"))
    assert isinstance(reader.next_event(), core.Parse)
    reader.error()
    events, _ = reader.peek()
    assert [type(event) for event in events] == [core.Sync] and reader.phase == "skipping"
    assert reader.take_rest() == data[len(client_core.parse(b"", b"SELECT 1")) :]
    assert reader.buffered_bytes == 0 and reader.next_event() is core.NEED_DATA


@pytest.mark.parametrize("cut", [5_006, 6_000, 20_001, 20_005, 20_008, 40_000])
def test_peeking_behind_a_failed_copy_begins_where_a_message_begins(cut: int) -> None:
    machine = ready()
    machine.begin_copy()
    whole = message(b"d", b"x" * 20_000) * 2 + message(b"c")
    query = message(b"Q", b"select 1\0")
    machine.receive_data(whole[:5_000])
    assert isinstance(machine.next_event(), core.CopyData)
    machine.end_copy(failed=True, extended=False)
    machine.receive_data(whole[5_000:cut])
    assert machine.peek() == ([], 0)
    assert machine.buffered_bytes < 20_005
    machine.receive_data(whole[cut:] + query)
    found, size = machine.peek()
    assert [described(event) for event in found] == ["Query(sql=b'select 1')"]
    assert size == machine.buffered_bytes == len(query)
    assert machine.take_rest() == query
