"""Merges an applied configuration into a live value: nothing is removed, and the configuration wins.

The result shares unchanged parts with both. Next: `remove`.
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
            there = before.get(name, ABSENT)
            result[name] = value if there is ABSENT else merge(form.child(name), there, value)
        return result
    items, said = (live if type(live) is list else None), (config if type(config) is list else None)
    if not items:
        return config
    return _merge_lists(form, items, said) if said else items


def _merge_lists(form: ListType, live: list[Any], config: list[Any]) -> list[Any]:
    there, said = indexed(form, live), indexed(form, config)
    for twice, found in said.items():
        if len(found) > 1:
            raise TypedError([("", f"duplicate entries for key {elements.text(twice)}")])
    left, right = _sequence(form, live, there), list(said)
    shared = iter([element for element in right if element in there])
    expected = next(shared, None)
    result: list[Any] = []
    taken: set[str] = set()
    li = ri = 0
    element: str | None
    while li < len(left) or ri < len(right):
        element = left[li] if li < len(left) else None
        if element is not None and ri < len(right):
            if element != right[ri]:
                if element in said and expected is not None and expected != element:
                    li += 1  # the configuration has it elsewhere: it comes when its turn is there
                    continue
            else:
                result.append(_merge_items(form, element, there, said))
                taken.add(element)
                li, ri = li + 1, ri + 1
                expected = next(shared, None)
                continue
        if element is not None:
            if element not in said:
                result.append(live[li])
                li += 1
                continue
            if element in taken:
                li += 1
        if ri < len(right):
            element = right[ri]
            result.append(_merge_items(form, element, there, said))
            taken.add(element)
            ri += 1
            if element == expected:
                expected = next(shared, None)
    return result


def _sequence(form: ListType, items: list[Any], found: dict[str, list[Any]]) -> list[str]:
    """The path element of each item."""
    if len(found) == len(items):
        return list(found)
    return [next(iter(indexed(form, [item]))) for item in items]


def _merge_items(form: ListType, element: str, there: dict[str, list[Any]], said: dict[str, list[Any]]) -> Any:
    before = there.get(element)
    if before is None:
        return said[element][0]
    # Duplicate items are replaced: it is unknown which of them is meant.
    return merge(form.element, before[0] if len(before) == 1 else None, said[element][0])
