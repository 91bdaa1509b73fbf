"""Host rules: which one decides, and what is refused in one line."""

from __future__ import annotations

import pytest

from wire.host_rules import LOCAL, RuleError, find, may_come, parse

RULES = parse(
    """
    # the first that fits decides
    host     all            all          127.0.0.1/32             trust
    hostssl  shop,accounts  +staff,boss  10.0.0.0 255.0.0.0       scram-sha-256
    hostssl  sameuser       all          fd00::/8                 scram-sha-256
    host     all            all          10.9.0.0/16              reject
    hostnossl all           web          all                      scram-sha-256
    """
)


@pytest.mark.parametrize(
    ("secure", "host", "database", "user", "groups", "expected"),
    [
        (False, "127.0.0.1", "any", "anybody", (), "trust"),
        (False, "::ffff:127.0.0.1", "any", "anybody", (), "trust"),
        (True, "10.1.2.3", "shop", "boss", (), "scram-sha-256"),
        (True, "10.1.2.3", "shop", "ann", ("ann", "staff"), "scram-sha-256"),
        (True, "10.1.2.3", "shop", "ann", ("ann",), None),
        (False, "10.1.2.3", "shop", "boss", (), None),
        (True, "10.1.2.3", "other", "boss", (), None),
        (True, "fd00::7%eth0", "ann", "ann", (), "scram-sha-256"),
        (True, "fd00::7", "ann", "bob", (), None),
        (True, "10.9.0.1", "other", "web", (), "reject"),
        # Two rules fit each of these, and the later one would say otherwise.
        (False, "127.0.0.1", "other", "web", (), "trust"),
        (True, "10.9.0.1", "shop", "boss", (), "scram-sha-256"),
        (False, "10.9.0.1", "other", "web", (), "reject"),
        (False, "192.0.2.1", "other", "web", (), "scram-sha-256"),
        (True, "192.0.2.1", "other", "web", (), None),
    ],
)
def test_the_first_rule_that_fits_decides(
    secure: bool, host: str, database: str, user: str, groups: tuple[str, ...], expected: str | None
) -> None:
    rule = find(RULES, secure, host, database, user, groups)
    assert (rule and rule.method) == expected


def test_without_rules_this_machine_alone_is_trusted() -> None:
    assert all(find(LOCAL, False, host, "d", "u", ()) for host in ("127.0.0.1", "127.9.9.9", "::1"))
    assert not any(find(LOCAL, True, host, "d", "u", ()) for host in ("10.0.0.1", "128.0.0.1", "fe80::1"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("local all all trust", 'line 1: "local" is not supported'),
        ("host all all 127.0.0.1/32", "line 1: a rule has five parts"),
        ("host all all 0.0.0.0/0 trust", "line 1: trust is for addresses of this machine only"),
        ("host all all all trust", "line 1: trust is for addresses of this machine only"),
        ("host all all 10.0.0.0/8 md5", 'line 1: "md5" is not supported'),
        ("host all all 10.0.0.0/8 scram-sha-256 map=x", 'line 1: "scram-sha-256 map=x" is not supported'),
        ("host all all example.org scram-sha-256", "does not appear to be an IPv4 or IPv6 network"),
        ("host all all 10.0.0.1/8 scram-sha-256", "has host bits set"),
        ("host all all samenet scram-sha-256", '"samenet" is not supported'),
        ("host replication all all reject", '"replication" is not supported'),
        ("host all /^x$ all reject", "files and patterns of users are not supported"),
        ("host all 'x all reject", "line 1: No closing quotation"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(line: str, expected: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(line)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("secure", "host", "expected"),
    [(True, "10.1.2.3", True), (False, "10.1.2.3", True), (True, "10.9.0.1", True), (True, "192.0.2.1", False)],
)
def test_who_may_come_at_all(secure: bool, host: str, expected: bool) -> None:
    assert may_come(RULES, secure, host) is expected


def test_a_rejection_of_all_ends_the_search() -> None:
    rules = parse("host all all 10.9.0.0/16 reject\nhost all ann 10.8.0.0/16 reject\nhost all all all scram-sha-256")
    assert [may_come(rules, True, f"10.{net}.0.1") for net in (9, 8, 7)] == [False, True, True]


WORDS = [
    ("all", ["all", "other"]),
    ("sameuser", ["ann"]),
    ("+staff", []),
    ("@file", []),
    ("/^x", []),
    ("replication", []),
]


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(("word", "means"), WORDS)
def test_a_word_in_quotes_is_a_name(quote: str, word: str, means: list[str]) -> None:
    """As in PostgreSQL: a database or a role may be called all."""
    name = f"{quote}{word}{quote}"
    for first, second in ((name, "ann"), (f"x,{name}", f"y,{quote}an,n{quote},ann")):
        rules = parse(f"host {first} {second} all scram-sha-256")
        assert find(rules, False, "10.0.0.1", word, "ann", ("ann",)) is not None
        assert all(find(rules, False, "10.0.0.1", other, "ann", ("ann",)) is None for other in means if other != word)
        rules = parse(f"host {second} {first} all scram-sha-256")
        assert find(rules, False, "10.0.0.1", "ann", word, (word,)) is not None
        assert find(rules, False, "10.0.0.1", "ann", "bob", ("bob", "staff")) is None
    assert not any(may_come(parse(f"host {name} all all reject"), False, "10.0.0.1") for _ in "a")
    both = parse(f"host {name} all all reject\nhost all all all scram-sha-256")
    assert may_come(both, False, "10.0.0.1")  # somebody may


def test_quotes_hold_blanks_and_commas() -> None:
    (rule,) = parse('host "a b",\'c,d\' "e#f" 10.0.0.0/8 scram-sha-256 # a comment "')
    assert (rule.databases, rule.users) == (("a b", "c,d"), ("e#f",))
