"""Label and field selectors, by cases of our own: the grammar, what matches, and how they are written."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.meta import fields, labels
from oarlock.meta.fields import FieldSelectorError
from oarlock.meta.labels import LabelRequirement, SelectorError

BOAT = {"kind": "sloop", "masts": "1", "crew": "", "a.io/owner": "ann"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("kind", True),
        ("!kind", False),
        ("!engine", True),
        ("kind=sloop", True),
        ("kind==sloop,masts=1", True),
        ("kind = sloop , masts != 2", True),
        ("engine!=diesel", True),
        ("kind!=sloop", False),
        ("kind in (ketch, sloop)", True),
        ("kind in (ketch)", False),
        ("kind notin (ketch,yawl)", True),
        ("engine notin (diesel)", True),
        ("kind notin (sloop)", False),
        ("crew=", True),
        ("crew in ()", True),
        ("masts>0", True),
        ("masts>1", False),
        ("masts<2", True),
        ("kind>1", False),
        ("engine<9", False),
        ("a.io/owner=ann", True),
        ("a.io/owner in (ben),kind", False),
    ],
)
def test_what_a_selector_matches(text: str, matches: bool) -> None:
    selector = labels.parse(text)
    assert selector.matches(BOAT) is matches
    assert labels.parse(str(selector)) == selector


@pytest.mark.parametrize(
    "text",
    [
        *("=", "!", "(", "a,", "a,,b", "a=b=c", "!a=b", "a b", "-a=b", "a=-b", "a/b/c", "a>", "a>b"),
        *("a in", "a notin", "a in b", "in (a)", "a in (b", "a in (b))", "a in (b) c", f"a={'v' * 64}"),
    ],
)
def test_texts_that_are_no_selectors(text: str) -> None:
    with pytest.raises(SelectorError):
        labels.parse(text)


def test_requirements_are_sorted_and_their_values_too() -> None:
    assert str(labels.parse("z,b notin (y,x),a=1")) == "a=1,b notin (x,y),z"
    assert [one.key for one in labels.parse("b=2,a").requirements] == ["a", "b"]


@pytest.mark.parametrize(
    ("operator", "values", "right"),
    [
        ("in", ["a", "b"], True),
        ("in", [], False),
        ("notin", [], False),
        ("exists", [], True),
        ("exists", ["a"], False),
        ("!", [], True),
        ("!", ["a"], False),
        ("=", ["a"], True),
        ("=", ["a", "b"], False),
        ("gt", ["7"], True),
        ("gt", ["seven"], False),
        ("lt", ["1", "2"], False),
        ("near", ["a"], False),
    ],
)
def test_how_many_values_an_operator_has(operator: str, values: list[str], right: bool) -> None:
    if right:
        assert labels.requirement("k", operator, values) == LabelRequirement("k", operator, tuple(values))
    else:
        with pytest.raises(SelectorError):
            labels.requirement("k", operator, values)


def test_the_one_value_a_label_must_have() -> None:
    assert labels.parse("a=1,b").exact("a") == "1"
    assert labels.parse("a in (1)").exact("a") == "1"
    for text in ("a in (1,2)", "a!=1", "a", "b=1"):
        assert labels.parse(text).exact("a") is None, text


@pytest.mark.parametrize(
    ("tree", "same_as"),
    [
        ({}, ""),
        ({"matchLabels": {"a": "1", "b": ""}}, "a=1,b="),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, "a in (1,2)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, "a notin (1)"),
        (
            {"matchLabels": {"z": "9"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "a,z=9",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
    ],
)
def test_selectors_as_objects(tree: dict[str, Any], same_as: str) -> None:
    assert labels.from_label_selector(tree) == labels.parse(same_as)


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["1"]},
        {"key": "a", "operator": "Like", "values": ["1"]},
        {"key": "-a", "operator": "Exists"},
        {"key": "a", "operator": "In", "values": ["not a value"]},
    ],
)
def test_objects_that_are_no_selectors(expression: dict[str, Any]) -> None:
    with pytest.raises(SelectorError):
        labels.from_label_selector({"matchExpressions": [expression]})


def test_terms_of_field_selectors_are_cut_at_bare_commas() -> None:
    assert fields.split_terms("") == []
    assert fields.split_terms(r"a=1,b=x\,y,") == ["a=1", r"b=x\,y", ""]
    assert fields.split_term("a==b") == ("a", "==", "b")
    assert fields.split_term("a!=") == ("a", "!=", "")
    assert fields.split_term(r"a=\=b") == ("a", "=", r"\=b")
    assert fields.split_term("alone") is None


@pytest.mark.parametrize("value", ["", "plain", "a,b", "a=b", "a\\b", "a\\,=b", "ü"])
def test_what_is_escaped_is_the_same_unescaped(value: str) -> None:
    assert fields.unescape(fields.escape(value)) == value
    parsed = fields.parse(f"f={fields.escape(value)}")
    assert parsed.exact("f") == value


@pytest.mark.parametrize("text", ["a", "a=b=c", "a==b==c", "a=b,c", r"a=\q", "a=b\\", "=,b", "a=b||c=d"])
def test_texts_that_are_no_field_selectors(text: str) -> None:
    with pytest.raises(FieldSelectorError):
        fields.parse(text)
