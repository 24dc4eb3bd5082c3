"""Field selectors: terms, escapes, and what is said of texts that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import fields
from oarlock.meta.fields import FieldRequirement, FieldSelector, FieldSelectorError

Vectors = Callable[[str], Any]


def test_terms_are_cut_at_commas_that_are_not_escaped(shared_vectors: Vectors) -> None:
    for case in shared_vectors("selectors.json")["groups"]["field_split_terms"]:
        assert fields.split_terms(case["name"]) == (case["value"] or [])


def test_a_term_is_cut_at_its_operator(shared_vectors: Vectors) -> None:
    for case in shared_vectors("selectors.json")["groups"]["field_split_term"]:
        expected = (case["lhs"], case["op"], case["rhs"]) if case["ok"] else None
        assert fields.split_term(case["name"]) == expected


def test_values_are_escaped(shared_vectors: Vectors) -> None:
    for case in shared_vectors("selectors.json")["groups"]["field_escape"]:
        assert fields.escape(case["name"]) == case["value"]
        assert fields.unescape(case["value"]) == case["name"]


def test_good_and_bad_texts(shared_vectors: Vectors) -> None:
    groups = shared_vectors("selectors.json")["groups"]
    for text in groups["field_parse_ok"]:
        assert str(fields.parse(text)) == text
    for text in groups["field_parse_bad"]:
        with pytest.raises(FieldSelectorError):
            fields.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("x=a=b", "invalid field selector: unescaped character in value: 61"),
        ("x=\\z", "invalid field selector: invalid escape sequence: \\z"),
        ("x=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_the_words_of_errors(text: str, message: str) -> None:
    with pytest.raises(FieldSelectorError) as caught:
        fields.parse(text)
    assert str(caught.value) == message


def test_every_term_must_hold() -> None:
    selector = fields.parse("metadata.name==a,spec.x!=b")
    assert selector.requirements == (FieldRequirement("metadata.name", "=", "a"), FieldRequirement("spec.x", "!=", "b"))
    assert selector.matches({"metadata.name": "a", "spec.x": ""}.__getitem__)
    assert not selector.matches({"metadata.name": "a", "spec.x": "b"}.__getitem__)
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("spec.x") is None
    assert fields.parse("").empty


@given(
    st.lists(st.tuples(st.sampled_from(["a", "metadata.name"]), st.sampled_from("=!"), st.text(max_size=5)), max_size=4)
)
def test_what_is_written_is_read_again(drawn: list[tuple[str, str, str]]) -> None:
    terms = [FieldRequirement(field, "!=" if operator == "!" else "=", value) for field, operator, value in drawn]
    selector = FieldSelector(tuple(sorted(terms, key=str)))
    assert fields.parse(str(selector)) == selector


@given(st.text(alphabet="ab=!,\\\0é\ud800", max_size=20))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        fields.parse(text)
    except FieldSelectorError:
        pass


def test_the_terms_of_a_selector_are_bounded() -> None:
    many = ",".join(["a!=b"] * 1000)
    assert len(fields.parse(many).requirements) == 1000
    with pytest.raises(FieldSelectorError, match="more than 1000 requirements"):
        fields.parse(many + ",c=d")
    with pytest.raises(FieldSelectorError, match="has 65537 characters, at most 65536 are allowed"):
        fields.parse("a" * 65_537)


def test_each_field_is_looked_at_once() -> None:
    selector = fields.parse(",".join([*(f"a!=v{i}" for i in range(500)), *["b=c"] * 400]))
    asked: list[str] = []

    def get(field: str) -> str:
        asked.append(field)
        return "c"

    assert selector.matches(get)
    assert asked == ["a", "b"]
    assert not fields.parse("a=b,a=c").matches(lambda field: "b")


FIELDS = st.sampled_from(["a", "b", "metadata.name"])
TERMS = st.tuples(FIELDS, st.sampled_from(["=", "==", "!="]), st.sampled_from(["x", "y", ""])).map("".join)


@given(st.lists(TERMS, max_size=6), st.dictionaries(FIELDS, st.sampled_from(["x", "y", ""])))
def test_joined_conditions_are_the_conjunction_of_the_terms(terms: list[str], values: dict[str, str]) -> None:
    selector = fields.parse(",".join(terms))
    one_by_one = all((values.get(field, "") == value) is (op == "=") for field, op, value in selector.requirements)
    assert selector.matches(lambda field: values.get(field, "")) is one_by_one
