"""The interfaces of sessions and of the readable past for the node, because engine/session and engine/past import the
node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from catalog.errors import SqlError
    from catalog.memory import Account
    from catalog.schema import Role
    from engine.node.node import Node
    from engine.node.plan_cache import PlanKey
    from engine.storage.stores import Stores
    from engine.txn.transaction import Transaction


class NodeSession(Protocol):
    """A session that is open on the node."""

    @property
    def process_id(self) -> int: ...
    @property
    def database_oid(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def user_name(self) -> str: ...
    @property
    def key(self) -> PlanKey: ...
    @property
    def memory(self) -> Account: ...
    @property
    def transaction(self) -> Transaction | None: ...
    @property
    def prepared(self) -> Mapping[bytes, Any]:
        """Its prepared statements by their names."""

    @property
    def node(self) -> Node:
        """The node that it reads: a node of the past, if it reads the past."""

    @property
    def commits(self) -> int: ...
    @property
    def rollbacks(self) -> int: ...
    @property
    def stands_on(self) -> frozenset[bytes]:
        """The tablespaces, by id, that the node must lead for the work that the transaction has done."""

    def begin_implicit(self) -> Transaction: ...
    def node_leads(self) -> None:
        """The node has become the leader."""

    def cancel(self, error: SqlError | None = None) -> None: ...
    def lose_transaction(self, error: SqlError) -> None:
        """The node is no longer the leader: the running statement ends with the error, and the transaction is over."""

    def plan_anew(self) -> None:
        """Forgets the plans that the session has found."""


class NodePast(Protocol):
    """The past of a node (engine/past/manager.py)."""

    def several(self, stores: Stores) -> None:
        """The node has several tablespaces from now on."""

    def look_at_spaces(self) -> None:
        """There may be a new tablespace."""
