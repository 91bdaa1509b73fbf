"""Objects that are a part of another one: they are dropped with it, and never alone."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.schema import (
    ForeignWrapper,
    Routine,
    SchemaObject,
    UserCast,
    UserMultirange,
    UserRange,
    UserType,
    View,
)
from engine.ddl.context import DdlContext


def parts_of_range(context: DdlContext, item: UserType) -> Iterator[SchemaObject]:
    """What is dropped with a range or multirange type: the cast between them, the multirange type, the constructors."""
    catalog = context.catalog
    if isinstance(item, UserRange):
        cast = catalog.casts.get((item.oid, item.multirange))
        if cast is not None:
            yield cast
        yield catalog.objects[item.multirange]
    if isinstance(item, UserRange | UserMultirange):
        for others in catalog.routines.values():
            yield from (other for other in others if other.is_constructor and other.result.oid == item.oid)


def whole_of(context: DdlContext, item: SchemaObject) -> SchemaObject | None:
    """The object without which this one cannot be dropped: the extension of a view or of a wrapper, the range type of
    its parts."""
    catalog = context.catalog
    if isinstance(item, View | ForeignWrapper) and item.extension:
        return catalog.get(item.extension)
    if isinstance(item, UserMultirange):
        return catalog.get(item.range)
    if isinstance(item, Routine) and item.is_constructor:
        return catalog.get(item.result.oid)
    if isinstance(item, UserCast):
        function = catalog.get(item.function)
        return function if isinstance(function, Routine) and function.is_constructor else None
    return None
