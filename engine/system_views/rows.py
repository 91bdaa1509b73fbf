"""The rows of virtual tables for the row path. They are made for each object, and kept while the object does not
change.

   equal(column)   a look-up. If the value determines the objects (catalog/system/object_search.py), only their rows are
                   made. Otherwise it searches the whole relation, by a dict of that column
   all()           the whole relation. With more than WHOLE_ITEMS objects it is left to the columnar path

Parts, scopes and items are those of catalog/system/content.py, with the same rules of validity. Live content is
computed once for each execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from catalog.schema import FIRST_USER_OID, VirtualTable
from catalog.schema import Sequence as SequenceObject
from catalog.system import content
from catalog.system.content import Item, Items, Part
from catalog.system.object_search import owners
from engine.execute.context import RowPathFull
from engine.node.system_cache import Row, RowCache, Whole

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.system_views.surroundings import SessionSurroundings

WHOLE_ITEMS = 2000  # objects of a relation that the row path goes through
SMALL_ITEMS = 100  # up to so many, look-ups go to the whole relation, which is indexed
WHOLES_KEPT = 128


class VirtualRows:
    """The rows of one relation for a session, during one execution of a statement."""

    def __init__(self, session: Session, surroundings: SessionSurroundings, relation: VirtualTable) -> None:
        self._session = session
        self._relation = relation
        self._surroundings = surroundings
        self._cache: RowCache = session.node.system.rows
        self._parts = content.parts.get(relation.oid, ())
        self._whole: Whole | None = None

    def all(self) -> list[Row]:
        """Every row. Raises RowPathFull if there are too many for the row path."""
        return self.whole().rows

    def whole(self) -> Whole:
        """The relation with its indexes. Raises RowPathFull."""
        if self._whole is None:
            self._whole = self._kept_whole()
        return self._whole

    def equal(self, number: int) -> Callable[[object], Iterable[Row]]:
        """A function from a value, which may be NULL, to the rows with it in this column. Raises RowPathFull."""
        column = self._relation.columns[number - 1].name
        find = owners(self._relation.oid, column)
        if find is None or (self._count() <= SMALL_ITEMS and all(part.find is None for part in self._parts)):
            get = self.whole().index(number).get
            return lambda value: get(value, ())
        catalog = self._surroundings.catalog
        fixed = [self._fixed_look_up(part, number) for part in self._parts if part.scope == "fixed"]
        others = [(part.items, self._kept_items(part), part) for part in self._parts if part.scope != "fixed"]

        def look_up(value: object) -> Iterable[Row]:
            if value is None:
                return ()
            oids = find(catalog, value)
            if oids is None:
                return self.whole().index(number).get(value, ())
            found = [row for look_up in fixed for row in look_up(value)]
            for oid in dict.fromkeys(oids):
                for items, kept, part in others:
                    if isinstance(items, Items) and (item := items.of(catalog, oid)) is not None:
                        found += [row for row in self._rows_of(part, item, kept) if row[number - 1] == value]
            return found

        return look_up

    def _fixed_look_up(self, part: Part, number: int) -> Callable[[object], Iterable[Row]]:
        if part.find is not None:
            return partial(part.find, self._relation.columns[number - 1].name)
        index = self._make_fixed(part).index(number)
        return lambda value: index.get(value, ())

    # ---- how they are made ------------------------------------------------------------------------------------------

    def _count(self) -> int:
        """The maximum number of objects. Look-ups by object need parts that can make single objects."""
        catalog = self._surroundings.catalog
        count = 0
        for part in self._parts:
            if part.scope != "fixed":
                if not isinstance(part.items, Items):
                    return 0
                count += part.items.count(catalog)
        return count

    def _kept_whole(self) -> Whole:
        relation, surroundings = self._relation, self._surroundings
        if relation.oid >= FIRST_USER_OID:
            return Whole([self._sequence_row()])
        scopes = {part.scope for part in self._parts}
        if "live" in scopes:
            return Whole([row for part in self._parts for row in self._part_rows(part)])
        if scopes <= {"fixed"} and len(self._parts) == 1:
            return self._make_fixed(self._parts[0])
        catalog = surroundings.catalog
        if self._count() > WHOLE_ITEMS:
            raise RowPathFull(relation.name)
        scope = "session" if "session" in scopes else "catalog"
        key = (relation.oid, catalog.database, *surroundings.session_key(scope))
        kept = self._cache.wholes.get(key)
        if kept is None or kept[0] is not catalog:
            whole = Whole([row for part in self._parts for row in self._part_rows(part)])
            kept = self._cache.wholes[key] = (catalog, whole)
        self._cache.wholes.move_to_end(key)
        if len(self._cache.wholes) > WHOLES_KEPT:
            self._cache.wholes.popitem(last=False)
        return kept[1]

    def _part_rows(self, part: Part) -> Iterable[Row]:
        if part.scope == "fixed":
            return self._make_fixed(part).rows
        if part.items is None or not isinstance(part.items, Items):
            items = [] if part.items is None else part.items(self._surroundings.catalog)
            return self._make(part, items)
        kept = self._kept_items(part)
        items = part.items(self._surroundings.catalog)
        if len(kept) > 2 * len(items) + SMALL_ITEMS:  # of objects that are gone
            kept.clear()
        return [row for item in items for row in self._rows_of(part, item, kept)]

    def _make_fixed(self, part: Part) -> Whole:
        found = self._cache.fixed.get(id(part))
        if found is None:
            found = self._cache.fixed[id(part)] = Whole(self._make(part, []))
        return found

    def _kept_items(self, part: Part) -> dict[int, tuple[Item, list[Row]]]:
        surroundings, items = self._surroundings, self._cache.items
        key = (id(part), surroundings.catalog.database, *surroundings.session_key(part.scope))
        kept = items.get(key)
        if kept is None:
            kept = items[key] = {}
            if len(items) > WHOLES_KEPT:
                items.popitem(last=False)
        else:
            items.move_to_end(key)
        return kept

    def _rows_of(self, part: Part, item: Item, kept: dict[int, tuple[Item, list[Row]]]) -> list[Row]:
        oid = item[0].oid
        found = kept.get(oid)
        # An unchanged object is the same object, which tuples compare at once.
        if found is None or found[0] != item:
            found = kept[oid] = (item, self._make(part, [item]))
        return found[1]

    def _make(self, part: Part, items: list[Item]) -> list[Row]:
        columns = part.columns(items, self._surroundings)
        lists = next((len(value) for value in columns.values() if isinstance(value, list)), None)
        count = lists if lists is not None else len(items) if part.items is not None else content.row_count(columns)
        whole = content.complete(part.relation, columns, count)
        return list(zip(*[value if isinstance(value, list) else repeat(value, count) for value in whole], strict=True))

    def _sequence_row(self) -> Row:
        """The row of SELECT ... FROM a sequence."""
        sequence = self._surroundings.catalog.get(self._relation.oid)
        assert isinstance(sequence, SequenceObject)
        last, is_called = self._session.node.sequences.current(sequence)
        return last, self._session.node.sequences.logged_ahead(sequence), is_called
