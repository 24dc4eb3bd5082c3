"""Selectors compiled to predicates: no text of theirs becomes code."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import fields, labels
from oarlock.meta.errors import BadRequest
from oarlock.registry.read.selection import EVERYTHING, SelectedKind, Selection, SelectionMemo, compile_selection
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.state import Leaf
from oarlock.storage.pacing import Pacer

PLACES = {"spec.a": 0, "spec.b": 1}


def entry(name: str = "n", labels: dict[str, str] | None = None, fields: tuple[str, ...] = ("x", "y")) -> Entry:
    return Entry("/k", "ns", name, 1, 1, b"", labels or {}, fields)


@pytest.mark.parametrize(
    ("label_text", "field_text", "chosen"),
    [
        ("a=b", "", True), ("a=c", "", False), ("a in (b,c),!z", "", True), ("a!=b", "", False), ("z!=b", "", True),
        ("a=b,a=c", "", False), ("", "spec.a=x", True), ("", "spec.a!=x", False), ("", "spec.b=y,spec.a=x", True),
        ("", "metadata.name=n,metadata.namespace=ns", True), ("a=b", "metadata.name!=n", False), (" ", "", True),
    ],
)  # fmt: skip
def test_what_is_selected(label_text: str, field_text: str, chosen: bool):
    selection = compile_selection(label_text, field_text, PLACES)
    one = entry(labels={"a": "b"})
    assert selection.matches(one) is chosen
    assert selection.pick([one, one]) == ([one, one] if chosen else [])


def test_nothing_asked_is_everything():
    assert compile_selection("", "", {}) is EVERYTHING
    assert EVERYTHING.pick([entry()]) != []


@pytest.mark.parametrize("text", ["metadata.name", "a=b=c\\", "spec.c=1", "__class__=x", "e.fields[0]=1"])
def test_fields_that_cannot_be_selected(text: str):
    with pytest.raises(BadRequest):
        compile_selection("", text, PLACES)


code = st.sampled_from(
    ["__import__('os')", "'", '"', "e.labels", "f0", "k0", ") or (", "\\", "\n", "v0'] or 1 #", "{}"]
)


@given(st.text(max_size=5), code, code)
def test_no_text_becomes_code(key: str, value: str, field: str):
    texts = [(f"{key}={value}", ""), (value, ""), ("", f"metadata.name={value}"), ("", f"{field}={value}"), ("", value)]
    for label_text, field_text in texts:
        try:
            selection = compile_selection(label_text, field_text, PLACES)
        except BadRequest:
            continue
        wanted = labels.parse(label_text).matches({"a": "b"})
        pinned = {"metadata.name": "n", "metadata.namespace": "ns", "spec.a": "x", "spec.b": "y"}
        for name, operator, given_value in fields.parse(field_text).requirements:
            wanted = wanted and (pinned[name] == given_value) is (operator != "!=")
        assert selection.matches(entry(labels={"a": "b"})) is wanted


def test_a_filter_gives_the_loop_back():
    entries = [entry(name=f"n{i}", labels={"a": str(i % 100)}) for i in range(10_000)]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def filtered(selection: Selection) -> list[Entry]:
        task = asyncio.create_task(others())
        chosen = await selection.filter([entries[:100], entries[100:]], Pacer(slice_s=0))
        task.cancel()
        return chosen

    for selection in (compile_selection("a=7", "", PLACES), compile_selection("a=7,!b,c!=d,e notin (f)", "", PLACES)):
        turns = 0
        assert asyncio.run(filtered(selection)) == [e for e in entries if e.labels["a"] == "7"]
        assert turns >= 39


def test_the_leaves_of_the_cache_are_asked_for_what_is_required():
    entries = [
        entry(name=f"n{i:04}", labels={"a": str(i % 7), "b": "x"}, fields=(str(i % 3), "y")) for i in range(1000)
    ]
    leaves = [Leaf(entries[at : at + 200]) for at in range(0, 1000, 200)]
    for label_text, field_text in (
        ("a=3", ""), ("a=3,b=x", ""), ("a=3,!c", ""), ("!c,b!=y", "spec.a=1"), ("a=3", "spec.a=1"), ("a=9", ""),
        ("", "spec.a=1,spec.b!=z"), ("b in (x,y)", "metadata.name!=n0003,spec.a=2"), ("c=1", "spec.a=1"),
    ):  # fmt: skip
        selection = compile_selection(label_text, field_text, PLACES)
        for _ in range(3):
            assert asyncio.run(selection.filter(iter(leaves))) == selection.pick(entries)
            assert selection.pick(entries) == [one for one in entries if selection.matches(one)]


def test_a_selector_is_compiled_once_for_what_it_means():
    memo = SelectionMemo()
    first = memo.compiled("a=b", "spec.a=x", PLACES, "v1", kind=SelectedKind())
    assert memo.compiled("a=b", "spec.a=x", dict(PLACES), "v1", kind=SelectedKind()) is first
    assert memo.compiled("a=b", "spec.a=x", {"spec.a": 1}, "v1", kind=SelectedKind()) is not first
    assert memo.compiled("a=b", "spec.a=x", PLACES, "v2", kind=SelectedKind()).version == "v2"
    for _ in range(2):
        with pytest.raises(BadRequest):
            memo.compiled("a=b=c", "", PLACES, "v1", kind=SelectedKind())


def test_the_compiled_selectors_are_bounded_in_bytes():
    memo = SelectionMemo(limit_bytes=100_000)
    for n in range(1000):
        memo.compiled(f"a{n}=b", "", PLACES, "v1", kind=SelectedKind())
        memo.compiled(f"a in ({'x,' * 600}y{n})", "", PLACES, "v1", kind=SelectedKind())
    assert memo.remembered.held_bytes <= 100_000
    assert not [key for key in memo.remembered._values if len(str(key[0])) > 1024]


texts = st.sampled_from(["a=b", "a!=b", "a in (b,c)", "a notin (b)", "a", "!a", "b=x", "b!=x", "!c", "c", "a>1", "d=b"])
values = st.sampled_from(["b", "c", "x", "2", ""])


@given(
    st.lists(texts, max_size=6).map(",".join),
    st.lists(st.sampled_from(["spec.a=x", "spec.a!=x", "spec.b=", "metadata.name=n", "metadata.name!=n"]), max_size=3),
    st.lists(st.dictionaries(st.sampled_from("abcd"), values), max_size=5),
)
def test_both_forms_choose_what_the_selectors_say(label_text: str, field_terms: list[str], given_labels: list[dict]):
    selection = compile_selection(label_text, ",".join(field_terms), PLACES)
    entries = [
        entry(name=f"n{i}"[: 1 + i % 2], labels=one, fields=("x" * (i % 2), "y")) for i, one in enumerate(given_labels)
    ]
    by_labels, by_fields = labels.parse(label_text), fields.parse(",".join(field_terms))

    def wanted(one: Entry) -> bool:
        found = {"metadata.name": one.name, "spec.a": one.fields[0], "spec.b": one.fields[1]}
        return by_labels.matches(one.labels) and by_fields.matches(found.__getitem__)

    assert selection.pick(entries) == [one for one in entries if wanted(one)]
    assert [selection.matches(one) for one in entries] == [wanted(one) for one in entries]
