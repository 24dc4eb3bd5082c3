"""The order of a merged list: items in the patch follow its order, items only on the server keep their places.

Must not know: how items are merged. See also: `applying`.
Source: ``$setElementOrder``, KEP-537 "Apply: merge lists with order".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from oarlock.patch.errors import DirectiveError
from oarlock.patch.strategic_merge.values import Identity, shown

__all__ = ["check_order", "in_order"]

Item = TypeVar("Item")


def in_order(items: Sequence[tuple[Identity, Item]], order: Iterable[Identity], live: Iterable[Identity]) -> list[Item]:
    """Order the items: those in `order` in its order, the others in their own.

    The two sequences are interleaved by their order in `live`, the old list. An item of `order` that isn't in `live`
    comes before the next other item; another item that isn't in `live` comes after all of `order`.
    """
    rank: dict[Identity, int] = {}
    for value in order:
        rank.setdefault(value, len(rank))
    named = [pair for pair in items if pair[0] in rank]
    if len(named) == len(items):
        named.sort(key=lambda pair: rank[pair[0]])
        return [item for _, item in named]
    named.sort(key=lambda pair: rank[pair[0]])
    place: dict[Identity, int] = {}
    for value in live:
        place.setdefault(value, len(place))
    result: list[Item] = []
    waiting = iter(named)
    following = next(waiting, None)
    for value, item in items:
        if value in rank:
            continue
        here = place.get(value)
        while following is not None and (here is None or not here < place.get(following[0], -1)):
            result.append(following[1])
            following = next(waiting, None)
        result.append(item)
    while following is not None:
        result.append(following[1])
        following = next(waiting, None)
    return result


def check_order(patch: Sequence[Identity], order: Iterable[Identity], shown_patch: Any, shown_order: Any) -> None:
    """Check that the items of a patch are in the order that the patch asks for. Raises DirectiveError."""
    remaining = iter(order)
    if not all(value in remaining for value in patch):
        raise DirectiveError(
            f"The order in patch list:\n{shown(shown_patch)}\n doesn't match $setElementOrder list:\n"
            f"{shown(shown_order)}\n"
        )
