"""JSON with sorted keys, whichever way it is made."""

from __future__ import annotations

import random

import msgspec

from oarlock.codec.json import MANY_BYTES, MANY_KEYS, encode_sorted


def test_small_and_large_trees_are_sorted_alike() -> None:
    shuffled = random.Random(1)
    for count in (1, 10, MANY_KEYS + 1, 3 * MANY_KEYS):
        keys = [f"é{n}" if n % 3 else f"\U0001f600{n}" for n in range(count)]
        shuffled.shuffle(keys)
        tree = {"b": [{key: {"z": 1, "a": [n, None, 1.5, "\n"]} for n, key in enumerate(keys)}], "a": True}
        expected = msgspec.json.encode(tree, order="sorted")
        assert encode_sorted(tree) == expected
        assert (len(expected) > MANY_BYTES) == (count > MANY_KEYS)


def test_many_keys_of_which_only_the_last_is_out_of_order_are_not_left_to_the_encoder() -> None:
    """Which takes quadratic time for them: 200,000 would take a minute."""
    keys = [f"{n:06d}" for n in range(200_000)]
    tree = dict.fromkeys([*keys[1:], keys[0]], 1)
    assert encode_sorted(tree) == msgspec.json.encode(dict.fromkeys(keys, 1))
