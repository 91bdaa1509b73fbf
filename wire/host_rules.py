"""Host rules: who may connect from where, with which authentication, like pg_hba.conf (PostgreSQL 16 manual, 21.1).

    # type     database  user      address        method
    host       all       all       127.0.0.1/32   trust
    hostssl    all       all       10.0.0.0/8     scram-sha-256
    host       all       all       all            reject

type: host, hostssl (only with TLS), hostnossl. database: all, sameuser, names with commas. user: all, names, +role (its
members). A quoted word is always a name. address: a network, an address and a mask, or all. method: trust, for
addresses of this machine only; scram-sha-256; reject. The first matching rule decides; without one the connection is
refused. Other syntax of pg_hba.conf is refused by name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TRUST, SCRAM, REJECT = METHODS = ("trust", "scram-sha-256", "reject")
TYPES = {"host": None, "hostssl": True, "hostnossl": False}


_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'#])+""")
_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")


class Quoted(str):
    """A word in quotes, which is always a name."""

    __slots__ = ()


class RuleError(Exception):
    """An error in a rule; the message is one line."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`secure`: only for connections with TLS, or without; None: both. `network` None: every address."""

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
        if not any(
            name == database or _is(name, "all") or (_is(name, "sameuser") and database == user)
            for name in self.databases
        ):
            return False
        return any(
            name == user or _is(name, "all") or (_begins(name, "+") and name[1:] in groups) for name in self.users
        )


def _is(name: str, word: str) -> bool:
    """Whether it is this word, and not a quoted name."""
    return name == word and not isinstance(name, Quoted)


def _begins(name: str, *signs: str) -> bool:
    return name.startswith(signs) and not isinstance(name, Quoted)


_THIS_MACHINE = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
LOCAL = tuple(Rule(None, ("all",), ("all",), network, TRUST) for network in _THIS_MACHINE)
"""The rules of a server without rules: only connections from this machine are accepted, without a password."""


def parse(text: str) -> tuple[Rule, ...]:
    """The rules of a file. Raises RuleError with the line."""
    rules = []
    for number, _, rule, wrong in line_by_line(text):
        if rule is None:
            raise RuleError(f"line {number}: {wrong}")
        rules.append(rule)
    return tuple(rules)


def line_by_line(text: str) -> Iterator[tuple[int, str, Rule | None, str]]:
    """(line, its type, the rule or None, its error) of each line that is a rule, or should be."""
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = _words(line)
            if words:
                yield number, _plain(words[0]), _rule(words), ""
        except RuleError as error:
            yield number, "", None, str(error)


def _words(line: str) -> list[str]:
    """The words of a line, with quotes, up to a comment."""
    words, place = [], 0
    while place < len(line) and line[place] != "#":
        if line[place].isspace():
            place += 1
            continue
        found = _WORD.match(line, place)
        if found is None:
            raise RuleError("No closing quotation")
        words.append(found[0])
        place = found.end()
    return words


def _names(word: str) -> tuple[str, ...]:
    """The names of a list."""
    return tuple(
        Quoted(part[1:-1]) if part[0] in "\"'" and part.count(part[0]) == 2 and part[-1] == part[0] else _plain(part)
        for part in _PART.findall(word)
    )


def _plain(word: str) -> str:
    return word.replace('"', "").replace("'", "")


def _rule(words: Sequence[str]) -> Rule:
    kind = _plain(words[0])
    if kind not in TYPES:
        raise RuleError(f'"{kind}" is not supported: a rule begins with host, hostssl or hostnossl')
    if len(words) < 5:
        raise RuleError("a rule has five parts: type, database, user, address, method")
    databases, users = _names(words[1]), _names(words[2])
    for name in databases:
        if any(_is(name, word) for word in ("samerole", "samegroup", "replication")) or _begins(name, "@", "/", "+"):
            raise RuleError(f'"{name}" is not supported for databases')
    if any(_begins(name, "@", "/") for name in users):
        raise RuleError("files and patterns of users are not supported")
    rest = [_plain(word) for word in words[3:]]
    network = _network(rest)
    if len(rest) != 1 or rest[0] not in METHODS:
        raise RuleError(f'"{" ".join(rest)}" is not supported: the method is one of {", ".join(METHODS)}')
    if rest[0] == TRUST and not _is_here(network):
        raise RuleError("trust is for addresses of this machine only (127.0.0.0/8, ::1): use scram-sha-256")
    return Rule(TYPES[kind], databases, users, network, rest[0])


def _network(rest: list[str]) -> Network | None:
    """Removes the address from the front and returns it."""
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
    """Whether the rules allow any connection from this address."""
    address = _address(host)
    for rule in rules:
        if rule.secure in (None, secure) and (rule.network is None or address in rule.network):
            if rule.method != REJECT:
                return True
            if all(any(_is(name, "all") for name in names) for names in (rule.databases, rule.users)):
                return False
    return False


def find(
    rules: Sequence[Rule], secure: bool, host: str, database: str, user: str, groups: Collection[str]
) -> Rule | None:
    """The deciding rule. `host`: the client's address."""
    address = _address(host)
    return next((rule for rule in rules if rule.fits(secure, address, database, user, groups)), None)


def _address(host: str) -> Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
