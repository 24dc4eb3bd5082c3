"""What was selected of the current state is remembered until it changes, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import SELECTED_ENTRIES, SELECTIONS, Leaf, Root


def entry(name: str) -> Entry:
    return Entry(name, "", name, 1, 1, b"body of " + name.encode())


def root_of(count: int) -> tuple[Root, list[Entry]]:
    entries = [entry(f"{n:05}") for n in range(count)]
    return Root([""], [Leaf(entries)], count), entries


def test_the_newest_few_are_remembered() -> None:
    root, entries = root_of(10)
    for n in range(10):
        root.remember(n, [entries[n]])
    remembered = [n for n in range(10) if root.selected(n) is not None]
    assert remembered == list(range(10 - SELECTIONS, 10))
    assert root.selected(9) == [entries[9]]


def test_one_that_is_remembered_again_takes_no_place() -> None:
    root, entries = root_of(SELECTIONS)
    for n in range(SELECTIONS):
        root.remember(n, [entries[n]])
    root.remember(0, entries[:2])
    assert [root.selected(n) is not None for n in range(SELECTIONS)] == [True] * SELECTIONS
    assert root.selected(0) == entries[:2]


def test_a_large_one_is_returned_but_not_remembered() -> None:
    root, entries = root_of(SELECTED_ENTRIES + 1)
    assert root.remember("all but one", entries[1:]) == entries[1:]
    assert root.remember("all", entries) == entries
    assert root.selected("all but one") is not None
    assert root.selected("all") is None


@pytest.mark.anyio
async def test_a_change_ends_it_also_for_a_list_that_is_still_being_made(world: Any, kit: Any) -> None:
    things = await world.load()
    await world.write("a", "1")
    before = things.snapshot()
    before.remember("some", [things.get(kit.PREFIX + "a")])
    assert things.snapshot().selected("some") is not None, "the same state"
    await world.write("b", "1")
    assert before.selected("some") is None
    assert things.snapshot().selected("some") is None
    before.remember("late", [])
    assert before.selected("late") is None
    assert things.snapshot().selected("late") is None
