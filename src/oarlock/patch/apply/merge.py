"""Merges an applied configuration into a live value: nothing is removed, and the configuration wins.

The result shares unchanged parts with both. See also: `updater`.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch.apply import elements
from oarlock.patch.apply.schema import ABSENT, ListType, MapType, ValueType, atom
from oarlock.patch.errors import TypedError


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


def merge(type_: ValueType, live: Any, config: Any) -> Any:
    """`live` merged with `config`. TypedError when a list item has no path element, or two have the same.

    Items in both keep the live order; if the configuration has another order, that one wins.
    """
    if config is ABSENT:
        return live
    if live is ABSENT or live is config:
        return config
    form = atom(type_, config)
    if form is None or form.atomic:
        return config
    if isinstance(form, MapType):
        before, after = (live if type(live) is dict else None), (config if type(config) is dict else None)
        if not before:
            return config
        if not after:
            return before
        result = dict(before)
        for name, value in after.items():
            there, child = before.get(name, ABSENT), form.child(name)
            replaced = there is ABSENT or (type(value) is str and child.scalar is not None)
            result[name] = value if replaced else merge(child, there, value)
        return result
    items, configured = (live if type(live) is list else None), (config if type(config) is list else None)
    if not items:
        return config
    return _merge_lists(form, items, configured) if configured else items


def _merge_lists(form: ListType, live: list[Any], config: list[Any]) -> list[Any]:
    current, configured = indexed(form, live), indexed(form, config)
    for twice, items in configured.items():
        if len(items) > 1:
            raise TypedError([("", f"duplicate entries for key {elements.text(twice)}")])
    left, right = _sequence(form, live, current), list(configured)
    shared = iter([element for element in right if element in current])
    expected = next(shared, None)
    result: list[Any] = []
    merged: set[str] = set()
    li = ri = 0
    element: str | None
    while li < len(left) or ri < len(right):
        element = left[li] if li < len(left) else None
        if element is not None and ri < len(right):
            if element != right[ri]:
                if element in configured and expected is not None and expected != element:
                    li += 1  # the configuration has it elsewhere: it comes when its turn is there
                    continue
            else:
                result.append(_merge_items(form, element, current, configured))
                merged.add(element)
                li, ri = li + 1, ri + 1
                expected = next(shared, None)
                continue
        if element is not None:
            if element not in configured:
                result.append(live[li])
                li += 1
                continue
            if element in merged:
                li += 1
        if ri < len(right):
            element = right[ri]
            result.append(_merge_items(form, element, current, configured))
            merged.add(element)
            ri += 1
            if element == expected:
                expected = next(shared, None)
    return result


def _sequence(form: ListType, items: list[Any], by_element: dict[str, list[Any]]) -> list[str]:
    """The path element of each item."""
    if len(by_element) == len(items):
        return list(by_element)
    return [next(iter(indexed(form, [item]))) for item in items]


def _merge_items(form: ListType, element: str, current: dict[str, list[Any]], configured: dict[str, list[Any]]) -> Any:
    before = current.get(element)
    if before is None:
        return configured[element][0]
    # Duplicate items are replaced: it is unknown which of them is meant.
    return merge(form.element, before[0] if len(before) == 1 else None, configured[element][0])
