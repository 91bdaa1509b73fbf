"""Servers with a fault in their row security, which the row matrix must notice
(`python -m tests.torture.planted rows ...`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from catalog import row_security as rules
from engine.columnar.generate import dml
from engine.session import shown_rows
from engine.session.identity import Identity
from engine.sql import barriers, row_security, tree
from engine.sql.analyze import routines
from engine.sql.analyze.policies import BoundPolicy


def _restrictive() -> None:
    for_command = row_security._for_command

    def permissive_alone(policies: Sequence[BoundPolicy], command: str) -> Any:
        return for_command(policies, command)[0], []

    row_security._for_command = permissive_alone


def _every_command() -> None:
    row_security._for_command = lambda policies, _: (
        [item for item in policies if item.policy.permissive],
        [item for item in policies if not item.policy.permissive],
    )


def _everybody() -> None:
    row_security.concerns_role = lambda policy, groups: True


def _not_read() -> None:
    row_security.reads_target = lambda node: False


def _invokers() -> None:
    row_security.runs_as = lambda catalog, view, role: role


def _unchecked() -> None:
    row_security._name_checks = lambda checks: ()


def _unforced() -> None:
    is_restricted = rules.is_restricted
    row_security.is_restricted = lambda catalog, table, role: is_restricted(
        catalog, replace(table, force_row_security=False), role
    )


def _not_apart() -> None:
    row_security.may_reveal_early = lambda statement: False


def _unguarded() -> None:
    row_security.guard_conditions = lambda guard, where: [*guard, *barriers.conjuncts(where)]


def _columnar() -> None:
    new_row = dml._new_row

    def unchecked(scope: Any, statement: Any, layout: Any, assigned: Any) -> Any:
        checks = tuple(item for item in statement.checks if not item[0].startswith(tree.POLICY_CHECK))
        return new_row(scope, replace(statement, checks=checks), layout, assigned)

    dml._new_row = unchecked


def _remembered() -> None:
    context = Identity.security_context
    known: dict[int, Any] = {}

    def first(identity: Identity) -> Any:
        return known.setdefault(id(identity._session), context(identity))

    Identity.security_context = first  # type: ignore[method-assign]


def _copied() -> None:
    Identity.check_row_security = lambda identity, table: False  # type: ignore[method-assign, assignment]


def _shown() -> None:
    shown_rows.is_restricted = lambda catalog, table, role: False


def _unasked() -> None:
    row_security.check_sublinks = lambda catalog, role, part: None


def _definers() -> None:
    routines._assign_reader = lambda body, role, catalog: body


def _first_level() -> None:
    row_security.has_sublink = lambda part: False


ROW_RIGHTS: dict[str, Callable[[], None]] = {
    "restrictive policies are ignored": _restrictive,
    "a policy is for every command": _every_command,
    "a policy is for every role": _everybody,
    "SELECT policies are not those of changes": _not_read,
    "a view has the policies of its reader": _invokers,
    "new rows are not checked": _unchecked,
    "FORCE is ignored": _unforced,
    "tables do not stay apart": _not_apart,
    "conditions on targets are not guarded": _unguarded,
    "the columnar path forgets the checks": _columnar,
    "a session keeps its first role and setting": _remembered,
    "COPY FROM asks nobody": _copied,
    "errors show rows": _shown,
    "sub-queries of policies need no rights": _unasked,
    "a function has the policies of its caller": _definers,
    "tables in policies have none": _first_level,
}
