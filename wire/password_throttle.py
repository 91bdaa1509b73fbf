"""Delays the answers to wrong passwords, by the address of the client.

FREE wrong passwords within WINDOW seconds are answered at once, the next one after FIRST seconds, and each further one
after twice as long, up to MOST. While PENDING answers wait, passwords from that address are refused unread, so many
connections guess no faster than a few. A correct password is answered at once, whatever other clients do.

An IPv6 address counts by its network of 64 bits. At most ADDRESSES are kept.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import SqlError

FREE = 5
FIRST = 0.1
MOST = 3.0
WINDOW = 60.0
PENDING = 10
ADDRESSES = 10_000


@dataclass(slots=True)
class _Failures:
    wrong: int = 0
    last: float = 0.0
    pending: int = 0


class PasswordThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, _Failures] = OrderedDict()  # the last wrong ones at the end

    def __len__(self) -> int:
        return len(self._seen)

    def check(self, address: str) -> None:
        """Raises 53300 (FATAL) if a password from the address is not checked now."""
        seen = self._seen.get(network_of(address))
        if seen is not None and seen.pending >= PENDING:
            raise SqlError("53300", "too many wrong passwords from this address: try again later", severity="FATAL")

    def record_failure(self, address: str) -> float:
        """Records a wrong password, and returns the seconds to wait with the answer; call `release` afterwards."""
        network, now = network_of(address), self._clock()
        seen = self._seen.setdefault(network, _Failures())
        self._seen.move_to_end(network)
        if now - seen.last > WINDOW:
            seen.wrong = 0
        seen.wrong += 1
        seen.last = now
        seen.pending += 1
        while len(self._seen) > ADDRESSES:
            self._seen.popitem(last=False)
        return min(FIRST * 2.0 ** min(seen.wrong - FREE - 1, 60), MOST) if seen.wrong > FREE else 0.0

    def release(self, address: str) -> None:
        seen = self._seen.get(network_of(address))
        if seen is not None:
            seen.pending = max(0, seen.pending - 1)


def network_of(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
