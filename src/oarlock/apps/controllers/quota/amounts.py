"""`Amounts`: how much of what, and how they are added, compared and shown. See also: ``meta.quantities``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from oarlock.meta.quantities import Quantity, QuantityError, from_json

__all__ = ["Amounts", "amounts_of", "exceeded", "only", "shown", "summed", "wire"]

Amounts = Mapping[str, Quantity]


def amounts_of(tree: Any) -> dict[str, Quantity]:
    """The amounts in a tree. Quantities that can't be parsed are skipped."""
    amounts: dict[str, Quantity] = {}
    for name, value in (tree or {}).items():
        try:
            amounts[name] = from_json(value)
        except QuantityError:
            continue
    return amounts


def summed(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    """All parts together."""
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def only(amounts: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """The amounts that have one of these names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def exceeded(amounts: Amounts, hard: Amounts) -> list[str]:
    """The names of which there is more than there may be."""
    return [name for name, amount in amounts.items() if name in hard and hard[name] < amount]


def shown(amounts: Amounts) -> str:
    """The text of amounts in a refusal: ``count/configmaps=3,pods=1``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def wire(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
