"""Merges an applied configuration into a live value: nothing is removed, and the configuration wins.

The result shares unchanged parts with both. See also: `remove`.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch.apply import elements
from oarlock.patch.apply.errors import TypedError
from oarlock.patch.apply.items import indexed
from oarlock.patch.apply.schema import ABSENT, ListType, MapType, ValueType, atom

__all__ = ["merge"]


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
