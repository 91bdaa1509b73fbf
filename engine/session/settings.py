"""The settings of a session: SET, SHOW, RESET, and transactions (PostgreSQL 16 manual, chapter 20).

A SET is kept if the transaction commits, and undone if it rolls back. SET LOCAL ends with the transaction; the SET
clauses of a function end with the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from catalog.errors import SqlError
from catalog.identifiers import split_identifiers
from catalog.system.parameter_values import canonical
from catalog.system.parameters import LISTS, Parameter, postgres_parameters
from catalog.types.base import FormatSettings
from engine.session.setting_definitions import (
    DEFINITIONS,
    NOT_IN_FILE,
    NOT_RESET,
    OF_TRANSACTION,
    SERVER_DEFINITIONS,
    Definition,
)
from engine.txn.interface import SettingsState


def description_of(name: str) -> str:
    """The description in SHOW ALL: Shoal's, or PostgreSQL's."""
    key = name.lower()
    own, known = DEFINITIONS.get(key) or SERVER_DEFINITIONS.get(key), postgres_parameters().get(key)
    if own is not None and own.description:
        return own.description
    return known.description if known is not None else ""


def is_for_superusers(name: str) -> bool:
    """Whether only superusers may SET it."""
    definition, known = DEFINITIONS.get(name.lower()), postgres_parameters().get(name.lower())
    found = known if definition is None else definition
    return found is not None and found.context == "superuser"


def not_permitted(name: str) -> SqlError:
    return SqlError("42501", f'permission denied to set parameter "{name}"')


def check(name: str, value: str | None) -> str | None:
    """The value in its stored form, None for the default. Raises 42704, 22023, 55P02 (cannot be changed)."""
    definition = DEFINITIONS.get(name.lower())
    if (server := SERVER_DEFINITIONS.get(name.lower())) is not None:
        when = "now" if server.context == "sighup" else "without restarting the server"
        raise SqlError("55P02", f'parameter "{server.name}" cannot be changed {when}')
    known = postgres_parameters().get(name.lower())
    if definition is None and known is None:
        if not is_custom(name.lower()):
            raise _unknown_error(name)
        return value
    if definition is not None and definition.context == "internal":
        raise SqlError("55P02", f'parameter "{definition.name}" cannot be changed')
    if known is not None and value is not None and known.kind != "string":
        value = _as_in_postgres(known, name, value, definition)
    if definition is not None:
        return None if value is None else definition.check(definition.name, value)
    assert known is not None
    is_same = known.context in ("user", "superuser") and value in (None, known.shown_value)
    if not (known.without_effect or is_same):
        raise SqlError("55P02", f'parameter "{known.name}" cannot be changed')
    return known.shown_value if value is None else value


def _as_in_postgres(known: Parameter, name: str, value: str, definition: Definition | None) -> str:
    """A value in the form that SHOW has, checked as PostgreSQL does. Some words are accepted but not listed."""
    try:
        return canonical(known, name, value)
    except SqlError:
        if known.kind != "enum" or definition is None:
            raise
        try:
            return definition.check(definition.name, value)
        except SqlError:
            pass
        raise


def check_for_all(name: str, value: str | None) -> str | None:
    """The value in the form that ALTER SYSTEM stores; None removes the name. Raises 42704, 22023, 55P02 (cannot be
    changed)."""
    key = name.lower()
    if key in NOT_IN_FILE:
        raise SqlError("55P02", f'parameter "{name}" cannot be changed')
    if not _is_listed(key):
        raise _unknown_error(name)
    if value is not None and "\n" in value:
        raise SqlError("22023", "parameter value for ALTER SYSTEM must not contain a newline")
    server = SERVER_DEFINITIONS.get(key)
    if server is None:
        check(name, value)
        return value
    return None if value is None else server.check(server.name, value)


class Settings:
    """The values of one session. `changed` collects the names whose new values must be reported to the client: settings
    with ParameterStatus, or with `report_all` all."""

    def __init__(self, initial: Mapping[str, str]) -> None:
        self.report_all = False
        self._values: dict[str, str] = {key: definition.default for key, definition in DEFINITIONS.items()}
        self._values.update({name.lower(): value for name, value in initial.items()})
        self._session_defaults = dict(self._values)
        self._at_begin: dict[str, str] | None = None
        self._lasting: dict[str, str] | None = None
        self.changed: list[str] = []
        self._around: list[dict[str, str | None]] = []  # values around the functions with SET clauses that run
        self.custom_bytes = 0  # of the session's own names and values
        self.on_change: Callable[[], None] = lambda: None

    def get(self, name: str) -> str:
        """The value. Raises 42704 for an unknown name."""
        try:
            return self._values[name.lower()]
        except KeyError:
            known = postgres_parameters().get(name.lower())
            if known is None:
                raise _unknown_error(name) from None
            return known.shown_value

    def find(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def items(self) -> list[tuple[str, str]]:
        """(name, value) of every setting, including those of PostgreSQL without effect, without those of the server."""
        others = {
            key: item.shown_value
            for key, item in postgres_parameters().items()
            if key not in self._values and key not in SERVER_DEFINITIONS
        }
        every = others | self._values
        return [(self.display_name(key), every[key]) for key in sorted(every)]

    def display_name(self, name: str) -> str:
        definition = DEFINITIONS.get(name) or postgres_parameters().get(name)
        return definition.name if definition else name

    def set(self, name: str, value: str | None, *, local: bool = False, in_transaction: bool = False) -> None:
        """Sets a value, or the default with None. Raises 42704, 22023, 55P02 (cannot be changed)."""
        key = name.lower()
        checked = check(name, value)
        canonical = self._session_defaults.get(key, "") if checked is None else checked
        if in_transaction and self._at_begin is None:
            self._at_begin = self._without_functions()
        if local and self._lasting is None:
            self._lasting = self._without_functions()
        elif not local and self._lasting is not None:
            self._lasting[key] = canonical
        if not local:
            for around in self._around:
                around.pop(key, None)
        self._put({**self._values, key: canonical})

    @contextmanager
    def within(self, settings: Sequence[tuple[str, str]]) -> Iterator[None]:
        """The SET clauses of a function while it runs. A SET of the same name in the function lasts; a SET LOCAL ends
        with the function. Raises 42704, 22023."""
        around = {name.lower(): self._values.get(name.lower()) for name, _ in settings}
        given = {name.lower(): check(name, value) or "" for name, value in settings}
        self._around.append(around)
        self._put({**self._values, **given})
        try:
            yield
        finally:
            self._around.remove(around)
            self._put({**self._values, **{key: value or "" for key, value in around.items()}})

    def _without_functions(self) -> dict[str, str]:
        """The values as they are when the functions that run have ended."""
        values = dict(self._values)
        for around in reversed(self._around):
            values.update({key: value or "" for key, value in around.items()})
        return values

    def force(self, name: str, value: str) -> None:
        """Sets what SET cannot (is_superuser, session_authorization)."""
        self._put({**self._values, name.lower(): value})
        self._session_defaults[name.lower()] = value

    def follow(self, name: str, before: str | None, value: str | None) -> None:
        """The server's default has changed: sessions with the old default get the new one. None: Shoal's own."""
        own = DEFINITIONS[name].default if name in DEFINITIONS else postgres_parameters()[name].shown_value
        before, value = (own if item is None else check(name, item) or "" for item in (before, value))
        for values in (self._session_defaults, self._at_begin, self._lasting):
            if values is not None and values.get(name) == before:
                values[name] = value
        if self._values.get(name) == before:
            self._put({**self._values, name: value})

    def reset_value(self, name: str) -> str | None:
        """The value that RESET restores; None if the session has no value of its own."""
        return self._session_defaults.get(name.lower())

    def become_defaults(self) -> None:
        """RESET restores the values of the startup packet."""
        self._session_defaults = dict(self._values)

    def reset_all(self, in_transaction: bool) -> None:
        if in_transaction and self._at_begin is None:
            self._at_begin = self._without_functions()
        kept = {name: self._values[name] for name in NOT_RESET}
        self._put({**self._session_defaults, **kept})

    def state(self) -> SettingsState:
        """The state that a savepoint keeps."""
        if self._around and self._lasting is None:
            return SettingsState(self._values, self._without_functions())
        return SettingsState(self._values, None if self._lasting is None else dict(self._lasting))

    def restore(self, state: SettingsState) -> None:
        if self._lasting is not None:
            self._lasting = dict(state.values if state.lasting is None else state.lasting)
        self._put(dict(state.values))

    def end_transaction(self, committed: bool) -> None:
        """Undoes SET LOCAL, and after a rollback every SET of the transaction."""
        if self._at_begin is None and self._lasting is None:
            return
        if committed:
            values = self._lasting if self._lasting is not None else self._values
        else:
            values = self._at_begin if self._at_begin is not None else self._values
        self._at_begin = self._lasting = None
        self._put(dict(values))

    def adopt(self, values: Mapping[str, str]) -> None:
        """Takes the values of the node where the transaction ran (lower-case names). Outside a transaction."""
        self._at_begin = self._lasting = None
        self._put({**self._values, **values})

    def outside(self) -> dict[str, str]:
        """The values before the transaction, by lower-case names."""
        return {name: value for name, value in self.begun().values.items() if name not in OF_TRANSACTION}

    def begun(self) -> SettingsState:
        """The state in which the transaction began."""
        return SettingsState(self._values if self._at_begin is None else self._at_begin, None)

    def _put(self, values: dict[str, str]) -> None:
        old = self._values
        if len(old) > len(values):  # a new name of the transaction stays, with an empty value
            values = {**dict.fromkeys(old, ""), **values}
        self._values = values
        changed = [key for key, value in values.items() if old.get(key) != value]
        if changed:
            if any(key not in DEFINITIONS for key in changed):
                self.custom_bytes = sum(
                    len(key) + len(value) for key, value in values.items() if key not in DEFINITIONS
                )
            self.changed += [
                self.display_name(key)
                for key in changed
                if self.report_all or (key in DEFINITIONS and DEFINITIONS[key].report)
            ]
            self.on_change()

    def format_settings(self) -> FormatSettings:
        style, order = self._values["datestyle"].split(", ")
        return FormatSettings(
            date_style=style,
            date_order=order,
            interval_style=self._values["intervalstyle"],
            timezone=self._values["timezone"],
            bytea_output=self._values["bytea_output"],
            extra_float_digits=int(self._values["extra_float_digits"]),
            text_search=self._values["default_text_search_config"].removeprefix("pg_catalog."),
            similarity_threshold=float(self._values["pg_trgm.similarity_threshold"]),
            word_similarity_threshold=float(self._values["pg_trgm.word_similarity_threshold"]),
            strict_word_similarity_threshold=float(self._values["pg_trgm.strict_word_similarity_threshold"]),
            xml_option=self._values["xmloption"],
            xml_binary=self._values["xmlbinary"],
        )

    def search_path(self, user: str) -> tuple[str, ...]:
        """The schemas named by search_path, "$user" replaced."""
        names = []
        for part in split_identifiers(self._values["search_path"]):
            names.append(user if part == "$user" else part)
        return tuple(names)


def script(earlier: SettingsState, later: SettingsState) -> list[str]:
    """The SET statements that lead from one state of a transaction to a later one."""
    statements = []
    for name in _in_order({**later.values, **(later.lasting or {})}):
        if name in DEFINITIONS and DEFINITIONS[name].context == "internal":
            continue
        lasts, lasted = (_lasting(state, name) for state in (later, earlier))
        value, before = later.values.get(name), earlier.values.get(name)
        if value == before and lasts == lasted:
            continue
        if lasts is not None and (lasts != lasted or value == lasts):
            statements.append(set_statement(name, lasts))
        if value is not None and value != lasts:
            statements.append(set_statement(name, value, local=True))
    return statements


def _lasting(state: SettingsState, name: str) -> str | None:
    return (state.values if state.lasting is None else state.lasting).get(name)


def _in_order(names: Iterable[str]) -> list[str]:
    """The user comes first, because setting it resets the role."""
    return sorted(names, key=lambda name: (name != "session_authorization", name != "role"))


def in_list(name: str, values: tuple[str, ...]) -> str:
    """The values of a statement as one."""
    if name.lower() not in LISTS:
        return ", ".join(values)
    return ", ".join(value if _plain_name(value) else '"' + value.replace('"', '""') + '"' for value in values)


def _plain_name(value: str) -> bool:
    return value.isidentifier() and value == value.lower()


def set_statement(name: str, value: str, local: bool = False) -> str:
    """The statement that sets it to a value in its canonical form."""
    written = '"' + '"."'.join(part.replace('"', '""') for part in name.split(".")) + '"'
    if name in LISTS and value.strip():
        shown = ", ".join('"' + item.replace('"', '""') + '"' for item in split_identifiers(value))
    else:
        shown = "'" + value.replace("'", "''") + "'"
    return f"SET {'LOCAL ' if local else ''}{written} = {shown}"


def is_known(name: str) -> bool:
    """Whether a setting of that name (in lower case) exists or could exist."""
    return _is_listed(name) or is_custom(name)


def _is_listed(name: str) -> bool:
    return any(name in known for known in (DEFINITIONS, SERVER_DEFINITIONS, postgres_parameters()))


def is_custom(name: str) -> bool:
    return bool(re.fullmatch(r"[a-z_][a-z0-9_$]*(\.[a-z_][a-z0-9_$]*)+", name))


def _unknown_error(name: str) -> SqlError:
    return SqlError("42704", f'unrecognized configuration parameter "{name}"')
