"""ICU through ctypes, held against PostgreSQL's use of the same library."""

from __future__ import annotations

import itertools
import random

import psycopg
import pytest

from catalog import collations, icu
from catalog.types import lookup, oids
from catalog.types.collated import Rules, with_collation

LOCALES = ("und", "de", "sv", "tr", "cs", "ja", "en-US-u-va-posix", "de-u-co-phonebk", "und-u-ks-level2", "fr-CA",
           "und-u-kn-true", "en-u-kf-upper")  # fmt: skip
LETTERS = "aAbBzZäÄåöøßéèÉcChčČłiıİjI \t-_'.,0123459九字ひカ가אбЖ\U0001f600é́"


def words(seed: int, count: int) -> list[str]:
    """Distinct random words of letters that collations disagree about."""
    chance = random.Random(seed)
    return list({"".join(chance.choices(LETTERS, k=chance.randrange(6))) for _ in range(count)})


@pytest.mark.parametrize("locale", LOCALES)
def test_words_are_in_the_order_that_postgresql_gives_them(locale: str, postgres: psycopg.Connection) -> None:
    name = f"order_{locale.replace('-', '_').lower()}"
    postgres.execute(f"CREATE COLLATION {name} (provider = icu, locale = '{locale}')".encode())
    given = words(1, 400)
    query = f"SELECT x FROM unnest(%s::text[]) x ORDER BY x COLLATE {name}"
    theirs = [row[0] for row in postgres.execute(query.encode(), [given])]
    key = lookup(with_collation(oids.TEXT, Rules(locale)).oid).key_encoder()
    assert key is not None
    assert sorted(given, key=key) == theirs


def test_what_is_equal_without_case_is_what_postgresql_takes_for_equal(postgres: psycopg.Connection) -> None:
    postgres.execute("CREATE COLLATION loosely (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
    key = lookup(with_collation(oids.TEXT, Rules("und-u-ks-level1", False)).oid).sort_key()
    assert key is not None
    pairs = list(itertools.combinations(words(2, 60), 2))
    query = "SELECT a = b COLLATE loosely FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY u(a, b, n) ORDER BY n"
    theirs = [row[0] for row in postgres.execute(query, [[a for a, _ in pairs], [b for _, b in pairs]])]
    assert [key(a) == key(b) for a, b in pairs] == theirs
    assert True in theirs


@pytest.mark.parametrize("locale", ["tr", "en", "lt", "el", "nl"])
def test_cases_are_mapped_as_postgresql_maps_them(locale: str, postgres: psycopg.Connection) -> None:
    given = [*words(3, 200), "straße ijsland", "ΟΔΥΣΣΕΥΣ", "ÌI", "ǆ ﬁn", "x" * 300 + "ß" * 300]
    mapped = ", ".join(f'{name}(x COLLATE "{locale}-x-icu")' for name in ("upper", "lower", "initcap"))
    query = f"SELECT {mapped} FROM unnest(%s::text[]) WITH ORDINALITY u(x, n) ORDER BY n"
    theirs = list(postgres.execute(query.encode(), [given]))
    assert [(icu.upper(x, locale), icu.lower(x, locale), icu.title(x, locale)) for x in given] == theirs


def test_versions_and_built_in_collations_are_postgresqls(postgres: psycopg.Connection) -> None:
    rows = postgres.execute(
        "SELECT oid::int, collname, colliculocale, pg_collation_actual_version(oid) FROM pg_collation "
        "WHERE collprovider = 'i' AND oid < 16384"
    ).fetchall()
    assert len(rows) > 700
    ours = collations.built_in()
    for oid, name, locale, version in rows:
        assert (ours[oid].name, ours[oid].locale, collations.version(ours[oid])) == (name, locale, version)


def test_a_machine_without_icu_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icu, "_library", lambda: None)
    with pytest.raises(Exception, match="ICU collations are not available") as raised:
        icu.upper("a", "de")
    assert getattr(raised.value, "sqlstate", "") == "0A000"
    assert "shoal[icu]" in getattr(raised.value, "hint", "")


def test_long_values_have_whole_keys() -> None:
    key = icu.sort_key_maker("de")
    assert key("ä" * 5000 + "a") < key("ä" * 5000 + "b")
    assert key("ä" * 5000).endswith(b"\0") and b"\0" not in key("ä" * 5000)[:-1]
