"""Reports of checks: what a replica writes is what is read, and nothing piles up."""

from __future__ import annotations

import pytest

from catalog.errors import SqlError
from replication.checks import (
    KEPT_CHECKS,
    MAX_BYTES,
    ReplicaReport,
    decode_report,
    encode_report,
    read_reports,
    write_report,
)
from tests.replication.memory_coordination import MemoryCoordination

TABLESPACE = bytes(16)


def test_a_report_comes_back_and_a_huge_one_without_its_parts() -> None:
    small = ReplicaReport(7, "ab", {100: (3, "cd"), 10: (1, "ef")}, "", 5)
    assert decode_report(encode_report(small)) == small
    huge = ReplicaReport(7, "ab", {number: (number, "0" * 32) for number in range(30_000)}, "", 5)
    assert len(encode_report(huge)) <= MAX_BYTES
    assert decode_report(encode_report(huge)) == ReplicaReport(7, "ab", {}, "", 5)
    assert decode_report(encode_report(ReplicaReport(error="no"))).error == "no"
    with pytest.raises(SqlError, match="XX001"):
        decode_report(b"{}")


async def test_nodes_report_once_and_old_checks_go() -> None:
    session = MemoryCoordination().session()
    checks = [bytes([number]) * 16 for number in range(KEPT_CHECKS + 3)]
    for number, check in enumerate(checks):
        for node in ("a", "b"):
            await write_report(session, TABLESPACE, check, node, ReplicaReport(number, node, reported=number))
    await write_report(session, TABLESPACE, checks[-1], "a", ReplicaReport(99, "another", reported=99))
    left = await session.children(f"tablespaces/{TABLESPACE.hex()}/checks")
    assert left == [check.hex() for check in checks[-KEPT_CHECKS:]]
    found = await read_reports(session, TABLESPACE, checks[-1].hex())
    assert found == {node: ReplicaReport(KEPT_CHECKS + 2, node, reported=KEPT_CHECKS + 2) for node in ("a", "b")}
    assert await read_reports(session, TABLESPACE, checks[0].hex()) == {}
