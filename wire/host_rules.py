"""Who may connect from where, and how he proves who he is: rules like pg_hba.conf's (PostgreSQL 16 manual, 21.1).

    # type     database  user      address        method
    host       all       all       127.0.0.1/32   trust
    hostssl    all       all       10.0.0.0/8     scram-sha-256
    host       all       all       all            reject

type: host, hostssl (only with TLS), hostnossl. database: all, sameuser, names with commas. user: all, names, +role (its
members). address: a network, an address and a mask, or all. method: trust, for addresses of this machine only;
scram-sha-256; reject. The first rule that fits decides; who fits none is refused. Whatever else pg_hba.conf may say is
refused by name.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TRUST, SCRAM, REJECT = METHODS = ("trust", "scram-sha-256", "reject")
TYPES = {"host": None, "hostssl": True, "hostnossl": False}


class RuleError(Exception):
    """What is wrong with a rule, in one line."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`secure`: whether it is for connections with TLS, or without; None: both. `network` None: every address."""

    secure: bool | None
    databases: tuple[str, ...]
    users: tuple[str, ...]
    network: Network | None
    method: str

    def fits(self, secure: bool, address: Address, database: str, user: str, groups: Collection[str]) -> bool:
        """`groups`: the roles of which the user is a member, itself among them."""
        if self.secure not in (None, secure):
            return False
        if self.network is not None and address not in self.network:
            return False
        if not any(name in ("all", database) or (name == "sameuser" and database == user) for name in self.databases):
            return False
        return any(name in ("all", user) or (name.startswith("+") and name[1:] in groups) for name in self.users)


_THIS_MACHINE = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
LOCAL = tuple(Rule(None, ("all",), ("all",), network, TRUST) for network in _THIS_MACHINE)
"""Without rules: whoever can open a socket on this machine is let in, nobody else."""


def parse(text: str) -> tuple[Rule, ...]:
    """The rules of a file. Raises RuleError with the line."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
            if words:
                rules.append(_rule(words))
        except (ValueError, RuleError) as error:
            raise RuleError(f"line {number}: {error}") from None
    return tuple(rules)


def _rule(words: Sequence[str]) -> Rule:
    kind = words[0]
    if kind not in TYPES:
        raise RuleError(f'"{kind}" is not supported: a rule begins with host, hostssl or hostnossl')
    if len(words) < 5:
        raise RuleError("a rule has five parts: type, database, user, address, method")
    databases, users = tuple(words[1].split(",")), tuple(words[2].split(","))
    for name in databases:
        if name in ("samerole", "samegroup", "replication") or name.startswith(("@", "/", "+")):
            raise RuleError(f'"{name}" is not supported for databases')
    if any(name.startswith(("@", "/")) for name in users):
        raise RuleError("files and patterns of users are not supported")
    rest = list(words[3:])
    network = _network(rest)
    if len(rest) != 1 or rest[0] not in METHODS:
        raise RuleError(f'"{" ".join(rest)}" is not supported: the method is one of {", ".join(METHODS)}')
    if rest[0] == TRUST and not _is_here(network):
        raise RuleError("trust is for addresses of this machine only (127.0.0.0/8, ::1): use scram-sha-256")
    return Rule(TYPES[kind], databases, users, network, rest[0])


def _network(rest: list[str]) -> Network | None:
    """Takes the address from the front."""
    address = rest.pop(0)
    if address == "all":
        return None
    if address in ("samehost", "samenet"):
        raise RuleError(f'"{address}" is not supported: write the network')
    if "/" not in address and len(rest) > 1:
        address += "/" + rest.pop(0)
    try:
        return ipaddress.ip_network(address)
    except ValueError as error:
        raise RuleError(f"{error}; an address is a network such as 10.0.0.0/8, or all") from None


def _is_here(network: Network | None) -> bool:
    if network is None:
        return False
    return any(network.version == here.version and network.subnet_of(here) for here in _THIS_MACHINE)  # type: ignore[arg-type]


def may_come(rules: Sequence[Rule], secure: bool, host: str) -> bool:
    """Whether the rules let anybody in from this address."""
    address = _address(host)
    for rule in rules:
        if rule.secure in (None, secure) and (rule.network is None or address in rule.network):
            if rule.method != REJECT:
                return True
            if "all" in rule.databases and "all" in rule.users:
                return False
    return False


def find(
    rules: Sequence[Rule], secure: bool, host: str, database: str, user: str, groups: Collection[str]
) -> Rule | None:
    """The rule that decides. `host`: the client's address."""
    address = _address(host)
    return next((rule for rule in rules if rule.fits(secure, address, database, user, groups)), None)


def _address(host: str) -> Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
