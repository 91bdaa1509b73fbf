"""Access control lists: their text, what a role holds by them, and what is lost with a grantor."""

from __future__ import annotations

import pytest

from catalog import privileges
from catalog.catalog import Catalog
from catalog.privileges import DependentPrivileges, Grant, add_grant, parse, remove_grants, rename_role
from catalog.schema import Role, Schema, Table


def _grants(*items: str) -> tuple[Grant, ...]:
    return tuple(map(parse, items))


@pytest.mark.parametrize("text", ["a=r*w/b", "=U/o", '"a b"=r/"x""y"', "a=arwdDxt/a"])
def test_items_keep_their_text(text: str) -> None:
    assert str(parse(text)) == text


def test_a_second_grant_of_the_same_grantor_joins_the_first() -> None:
    grants = add_grant(_grants("o=arw/o", "a=r/o"), parse("a=w*/o"))
    assert privileges.texts(grants) == ("o=arw/o", "a=rw*/o")
    assert privileges.texts(add_grant(grants, parse("a=w/b"))) == ("o=arw/o", "a=rw*/o", "a=w/b")


def test_what_was_granted_on_goes_with_its_grantor() -> None:
    grants = _grants("o=r/o", "a=r*/o", "b=r*/a", "c=r/b")
    with pytest.raises(DependentPrivileges):
        remove_grants(grants, parse("a=r/o"), False, False, "o")
    assert privileges.texts(remove_grants(grants, parse("a=r/o"), False, True, "o")) == ("o=r/o",)
    assert privileges.texts(remove_grants(grants, parse("a=r/o"), True, True, "o")) == ("o=r/o", "a=r/o")


def test_a_second_way_to_an_option_keeps_what_was_granted_on() -> None:
    grants = _grants("a=r*/o", "a=r*/p", "b=r/a")
    assert privileges.texts(remove_grants(grants, parse("a=r/o"), False, False, "o")) == ("a=r*/p", "b=r/a")


def test_another_name_joins_items() -> None:
    assert rename_role(("a=r/a", "b=w/a"), "b", "a") == ("a=rw/a",)
    assert rename_role(None, "a", "b") is None


def test_groups_and_owners() -> None:
    group, member, owner = Role(100, "g"), Role(101, "m", member_of=(100,)), Role(102, "o")
    outside = Role(103, "n", inherit=False, member_of=(100,))
    schema = Schema(2000, 5, "s", 102)
    table = Table(2001, 2000, "t", (), 1, owner=102, acl=("o=r/o", "g=r/o"))
    catalog = Catalog().with_changes({item.oid: item for item in (group, member, owner, outside, schema, table)})
    assert privileges.may(catalog, table, member, "r")
    assert not privileges.may(catalog, table, outside, "r")
    assert not privileges.may(catalog, table, owner, "w")
    assert privileges.get_privileges(catalog, table, owner)[1] == frozenset("arwdDxt")
    assert not privileges.may(catalog, schema, member, "U")
    assert privileges.may(catalog, schema, owner, "UC")
