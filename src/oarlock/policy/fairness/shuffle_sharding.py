"""Shuffle sharding: each flow is dealt a few of many queues, so that two flows rarely share all of theirs.

A greedy flow fills the queues of its hand; another flow has, nearly always, a queue outside of it. Source: KEP-1040,
"Fair queuing"; k8s.io/apiserver ``util/shufflesharding``, whose hands are the same.
"""

from __future__ import annotations

import hashlib
import math

__all__ = ["MOST_BITS", "bits_of_hand", "flow_number", "hand"]

MOST_BITS = 60
"""The most bits of a flow's number that a hand may use up."""


def bits_of_hand(queues: int, size: int) -> int:
    """How many bits of a random number it takes to deal `size` of `queues`; counted up to `MOST_BITS` + 1."""
    bits = 0.0
    for left in range(queues, queues - size, -1):
        bits += math.log2(left)
        if bits > MOST_BITS:
            return MOST_BITS + 1
    return math.ceil(bits)


def flow_number(schema: str, distinguisher: str) -> int:
    """The number of 64 bits that stands for a flow."""
    flow = f"{schema}\0{distinguisher}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(flow).digest()[:8], "little")


def hand(number: int, queues: int, size: int) -> tuple[int, ...]:
    """The `size` different indices below `queues` that `number` stands for."""
    places: list[int] = []
    cards: list[int] = []
    for left in range(queues, queues - size, -1):
        number, place = divmod(number, left)
        card = place
        for earlier in reversed(places):  # `place` counts the cards that are left, those dealt before aren't
            card += card >= earlier
        places.append(place)
        cards.append(card)
    return tuple(cards)
