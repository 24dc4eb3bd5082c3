"""Selectors compiled to predicates: no text of theirs becomes code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import fields, labels
from oarlock.meta.errors import BadRequest
from oarlock.registry.selection import EVERYTHING, compile_selection
from oarlock.storage.cache.entry import Entry

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
    assert selection.filter([one, one]) == ([one, one] if chosen else [])


def test_nothing_asked_is_everything():
    assert compile_selection("", "", {}) is EVERYTHING
    assert EVERYTHING.filter([entry()]) != []


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
