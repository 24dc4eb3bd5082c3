"""The path element of a list item: its key fields in a list of type map, its value in a set.

See also: `validate`, `owned`, `compare`, `merge`, `remove`, which all use it.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch.apply import elements
from oarlock.patch.apply.errors import TypedError
from oarlock.patch.apply.schema import ListType

__all__ = ["element_of", "indexed"]


def element_of(list_type: ListType, item: Any) -> str:
    """The path element of an item of a set or map. TypedError when it has none."""
    keys = list_type.keys
    if not keys:
        return _of_set(item)
    if type(item) is not dict:
        kind = "a null element" if item is None else "non-map elements"
        raise TypedError([("", f"associative list with keys may not have {kind}")])
    if len(keys) == 1 and keys[0] in item:
        return elements.key({keys[0]: item[keys[0]]})
    values = {}
    for name in keys:
        if name in item:
            values[name] = item[name]
        elif name in list_type.defaults:
            values[name] = list_type.defaults[name]
    if not values:
        names = " ".join(f'"{name}"' for name in keys)
        text = f"associative list with keys has an element that omits all key fields [{names}]"
        raise TypedError([("", f"{text} (and doesn't have default values for any key fields)")])
    return elements.key(values)


def _of_set(item: Any) -> str:
    if type(item) is dict:
        raise TypedError([("", "associative list without keys has an element that's a map type")])
    if type(item) is list:
        raise TypedError([("", "not supported: associative list with lists as elements")])
    if item is None:
        raise TypedError([("", "associative list without keys has an element that's an explicit null")])
    return elements.value(item)


def indexed(list_type: ListType, items: list[Any] | None) -> dict[str, list[Any]]:
    """The items by path element, in order; an element with several items is a duplicate."""
    items_by_element: dict[str, list[Any]] = {}
    for position, item in enumerate(items or ()):
        try:
            element = element_of(list_type, item)
        except TypedError as error:
            raise TypedError([("", f"element {position}: {error}")]) from None
        if element in items_by_element:
            items_by_element[element].append(item)
        else:
            items_by_element[element] = [item]
    return items_by_element
