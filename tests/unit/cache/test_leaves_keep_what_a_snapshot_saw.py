"""The ordered tree against a plain dictionary: same order, same ranges, and snapshots that never change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.storage.cache import state
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import Leaves, Snapshot


def entry(key: str, rev: int) -> Entry:
    return Entry(key, "", key, rev, rev, b"")


def pairs(snapshot: Snapshot, start: str = "", end: str = "\U0010ffff") -> list[tuple[str, int]]:
    return [(e.key, e.rev) for part in snapshot.range(start, end) for e in part]


@pytest.fixture(autouse=True)
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "LEAF_MAX", 4)


KEYS = st.text("abc/é", max_size=4)


@pytest.mark.slow
@examples(200)
@given(
    first=st.sets(KEYS),
    steps=st.lists(st.tuples(st.sampled_from(["put", "remove", "look"]), KEYS), max_size=60),
    bounds=st.tuples(KEYS, KEYS),
    limit=st.integers(0, 5),
)
def test_the_tree_is_an_ordered_dictionary_with_a_past(
    first: set[str], steps: list[tuple[str, str]], bounds: tuple[str, str], limit: int
) -> None:
    model = dict.fromkeys(first, 0)
    tree = Leaves.build([entry(key, 0) for key in sorted(first)])
    seen: list[tuple[Snapshot, dict[str, int]]] = []
    for number, (step, key) in enumerate(steps, start=1):
        if step == "put":
            model[key] = number
            tree.put(entry(key, number))
        elif step == "remove":
            model.pop(key, None)
            tree.remove(key)
        else:
            seen.append((Snapshot(number, tree.freeze()), dict(model)))
    seen.append((Snapshot(len(steps) + 1, tree.freeze()), model))
    for snapshot, then in seen:
        expected = sorted(then.items())
        assert pairs(snapshot) == expected
        assert snapshot.size == len(expected)
        start, end = bounds
        part = [pair for pair in expected if start <= pair[0] < end]
        assert pairs(snapshot, start, end) == part
        assert snapshot.count(start, end) == len(part)
        page, more = snapshot.page(start, end, limit)
        assert [(e.key, e.rev) for part in page for e in part] == (part[:limit] if limit else part)
        assert more == (bool(limit) and len(part) > limit)


def test_a_state_nobody_looked_at_is_changed_in_place() -> None:
    tree = Leaves.build([entry(f"{n:03}", 0) for n in range(100)])
    tree.put(entry("050", 1))
    root = tree.freeze()
    tree.put(entry("050", 2))
    held = {id(leaf) for leaf in root.leaves}
    tree.put(entry("050", 3))
    again = tree.freeze()
    assert len([leaf for leaf in again.leaves if id(leaf) not in held]) == 1, "one change copies one leaf"
    assert tree.freeze() is again


def test_ascending_keys_leave_full_leaves_behind() -> None:
    tree = Leaves.build([])
    for n in range(400):
        tree.put(entry(f"{n:04}", n))
    assert len(tree.freeze().leaves) <= 400 / 4 * 1.5
