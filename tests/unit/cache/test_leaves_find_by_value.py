"""Leaves find entries by a label or field, with an index where one is worth its memory."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import INDEXED_COLUMNS, Leaf, LeafColumn, Leaves


def entry(name: str, rev: int, label: str | None, field: str = "") -> Entry:
    return Entry(name, "", name, rev, rev, b"", {} if label is None else {"app": label, "other": "x"}, (field,))


def has(one: Entry, column: LeafColumn, value: str) -> bool:
    return (one.labels.get(column) if isinstance(column, str) else one.fields[column]) == value


COLUMNS = st.sampled_from(["app", "other", "third", 0])
VALUES = st.sampled_from(["a", "b", ""])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 9), st.one_of(st.none(), VALUES), VALUES),
            st.tuples(st.just("remove"), st.integers(0, 9)),
            st.tuples(st.just("keep")),
            st.tuples(st.just("ask"), COLUMNS, VALUES),
        ),
        max_size=60,
    )
)
def test_what_is_found_is_what_is_there_at_the_moment_and_in_the_past(steps: list[tuple]) -> None:
    tree = Leaves.build([])
    live: dict[str, Entry] = {}
    past: list[tuple[list[Leaf], dict[str, Entry]]] = []
    for number, (step, *what) in enumerate(steps):
        if step == "put":
            made = entry(str(what[0]), number, what[1], what[2])
            live[made.key] = made
            tree.put(made)
        elif step == "remove":
            live.pop(str(what[0]), None)
            tree.remove(str(what[0]))
        elif step == "keep":
            past.append((tree.freeze().leaves, dict(live)))
        else:
            for leaves, then in [*past, (tree.freeze().leaves, live)]:
                found = [one for leaf in leaves for one in leaf.having(*what)]
                assert found == [one for _, one in sorted(then.items()) if has(one, *what)]


def test_an_index_is_made_the_second_time_and_goes_with_a_change() -> None:
    tree = Leaves.build([entry("a", 1, "x"), entry("b", 1, "y")])
    tree.put(entry("c", 2, "x"))
    tree.freeze()
    tree.put(entry("c", 3, "x"))
    leaf = tree._leaves[0]
    assert [one.key for one in leaf.having("app", "x")] == ["a", "c"]
    assert leaf.indices == {"app": None}
    assert [one.key for one in leaf.having("app", "y")] == ["b"]
    assert leaf.indices is not None
    assert leaf.indices["app"] is not None
    tree.put(entry("c", 4, "y"))
    assert leaf is tree._leaves[0]
    assert leaf.indices is None


def test_who_asks_for_thousands_of_columns_makes_no_index() -> None:
    leaf = Leaf([entry(f"{n}", 1, str(n)) for n in range(256)])
    for n in range(5000):
        assert leaf.having(f"key-{n}", "x") == []
    assert leaf.indices is not None
    assert len(leaf.indices) == INDEXED_COLUMNS
    assert not any(leaf.indices.values())


def test_the_indices_of_a_leaf_are_bounded_in_bytes() -> None:
    """Each value different, and each column asked for twice: the worst that a client can do."""
    columns = [f"key-{n}" for n in range(50)]
    entries = []
    for n in range(256):
        entries.append(Entry(f"{n}", "", f"{n}", 1, 1, b"", {key: f"{key}{n}" for key in columns}))
    leaf = Leaf(entries)
    tracemalloc.start()
    try:
        for key in columns:
            for _ in range(2):
                assert len(leaf.having(key, f"{key}7")) == 1
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < INDEXED_COLUMNS * 256 * 200 + 2000
