"""Settings in transactions, and the SET statements that repeat what a transaction has set."""

from __future__ import annotations

from engine.session.settings import Settings, script, set_statement


def test_a_savepoint_gives_back_what_lasts_too() -> None:
    settings = Settings({})
    settings.set("my.a", "1", local=True, in_transaction=True)
    point = settings.state()
    settings.set("my.b", "2", in_transaction=True)
    settings.restore(point)
    settings.end_transaction(committed=True)
    assert (settings.get("my.a"), settings.get("my.b")) == ("", "")


def test_a_name_that_a_transaction_made_up_stays_and_is_empty() -> None:
    settings = Settings({})
    settings.report_all = True
    settings.set("my.a", "1", in_transaction=True)
    settings.end_transaction(committed=False)
    assert settings.get("my.a") == ""
    assert settings.changed == ["my.a", "my.a"]


def test_the_script_of_a_transaction() -> None:
    settings = Settings({})
    settings.set("my.a", "0", in_transaction=True)
    settings.end_transaction(committed=True)
    settings.set("my.a", "1", local=True, in_transaction=True)
    first = settings.state()
    settings.set("my.a", "2", in_transaction=True)
    settings.set("search_path", '"A b", public', in_transaction=True)
    assert script(settings.begun(), first) == ['SET LOCAL "my"."a" = \'1\'']
    assert sorted(script(first, settings.state())) == [
        'SET "my"."a" = \'2\'',
        'SET "search_path" = "A b", "public"',
    ]
    settings.set("my.a", "3", local=True, in_transaction=True)
    assert script(first, settings.state())[-1] == 'SET LOCAL "my"."a" = \'3\''


def test_who_the_session_is_comes_first() -> None:
    settings = Settings({})
    for name in ("application_name", "role", "session_authorization"):
        settings.set(name, "x", in_transaction=True)
    assert [text.split('"')[1] for text in script(settings.begun(), settings.state())] == [
        "session_authorization",
        "role",
        "application_name",
    ]


def test_statements_are_quoted() -> None:
    assert set_statement("my.it's", "it's") == "SET \"my\".\"it's\" = 'it''s'"
    assert set_statement("search_path", "") == "SET \"search_path\" = ''"
