"""Label selectors: what they read, what they match, how they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import labels
from oarlock.meta.labels import LabelRequirement, Selector, SelectorError

Vectors = Callable[[str], Any]

# Of the shared table these groups are left out, because no server needs what they test: `labels_conflict`,
# `labels_equality_parse` and `meta_selector_as_map` are helpers of client code.


def _groups(shared_vectors: Vectors) -> dict[str, Any]:
    found: dict[str, Any] = shared_vectors("selectors.json")["groups"]
    return found


def _requirement(tree: dict[str, Any]) -> LabelRequirement:
    return LabelRequirement(tree["key"], tree["operator"], tuple(sorted(tree["strValues"])))


def test_texts_that_are_selectors(shared_vectors: Vectors) -> None:
    for text in _groups(shared_vectors)["selector_parse_ok"]:
        assert labels.parse(text) == labels.parse(str(labels.parse(text)))


def test_texts_that_are_not(shared_vectors: Vectors) -> None:
    for text in _groups(shared_vectors)["selector_parse_bad"]:
        with pytest.raises(SelectorError):
            labels.parse(text)


def test_what_a_text_means(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["set_selector_parser"]:
        text = case.get("In", "")
        if not case.get("Valid"):
            with pytest.raises(SelectorError):
                labels.parse(text)
            continue
        expected = sorted(map(_requirement, case["Out"]), key=lambda one: one.key)
        assert list(labels.parse(text).requirements) == expected, text


def test_checking_one_requirement(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["requirement_constructor"]:
        key, operator, values = case["Key"], case["Op"], list(case.get("Vals", {}))
        if "WantErr" not in case:
            assert labels.requirement(key, operator, values) == LabelRequirement(key, operator, tuple(sorted(values)))
            continue
        with pytest.raises(SelectorError) as caught:
            labels.requirement(key, operator, values)
        for error in case["WantErr"]:
            assert error["$error"] in str(caught.value)


def test_matching(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["matching"]:
        # A requirement without key and operator is how the table writes "matches nothing".
        empty = {} in case["Sel"]
        selector = labels.NOTHING if empty else Selector(map(_requirement, case["Sel"]))
        assert selector.matches(case["Set"]) is case.get("Match", False), case


def test_writing(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["to_string"]:
        if case.get("Valid"):  # the other one holds a requirement without an operator, which can't be made here
            assert str(Selector(map(_requirement, case["In"]))) == case["Out"]


def test_what_selects_nothing(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["matches_nothing"]:
        if "selector" in case:
            assert not labels.parse(case["selector"]).nothing
    assert labels.NOTHING.nothing
    assert not labels.NOTHING.empty
    assert not labels.NOTHING.matches({})
    assert labels.EVERYTHING.empty
    assert labels.EVERYTHING.matches({"a": "b"})


def test_the_one_value_a_label_must_have(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["requires_exact_match"]:
        selector = Selector(map(_requirement, case["sel"]))
        assert selector.exact(case["label"]) == case.get("expectedValue"), case["name"]


def test_selectors_as_objects(shared_vectors: Vectors) -> None:
    for case in _groups(shared_vectors)["meta_selector_as_selector"]:
        tree = case.get("in")
        tree = tree if tree is None else _wire(tree)
        if case.get("expectErr"):
            with pytest.raises(SelectorError):
                labels.from_label_selector(tree)
        elif "in" not in case:
            assert labels.from_label_selector(None) == labels.NOTHING
        else:
            expected = sorted(map(_requirement, case["out"]), key=lambda one: one.key)
            assert list(labels.from_label_selector(tree).requirements) == expected


def _wire(value: Any) -> Any:
    """The table has Go's field names."""
    if isinstance(value, dict):
        return {k if k.islower() else k[0].lower() + k[1:]: _wire(v) for k, v in value.items()}
    return [_wire(v) for v in value] if isinstance(value, list) else value


def test_objects_that_are_no_selectors(shared_vectors: Vectors) -> None:
    group = "validation.TestLabelSelectorMatchExpression.testCases"
    cases = shared_vectors("validation_names.json")["groups"][group]
    labels.from_label_selector(_wire(cases[0]["labelSelector"]))
    for case in cases[1:]:
        with pytest.raises(SelectorError):
            labels.from_label_selector(_wire(case["labelSelector"]))
    with pytest.raises(SelectorError, match='"abc" is not a valid label selector operator'):
        labels.from_label_selector({"matchExpressions": [{"key": "k", "operator": "abc"}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in x", "unable to parse requirement: found 'x' expected: '('"),
        ("app===", "unable to parse requirement: found '=', expected: identifier"),
        ("app=bad value!", "found 'value', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
        ("(", "found '(', expected: !, identifier, or 'end of string'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_the_words_of_errors(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        labels.parse(text)
    assert str(caught.value) == message


def test_errors_in_keys_and_values_name_their_place() -> None:
    with pytest.raises(SelectorError, match=r'^unable to parse requirement: <nil>: Invalid value: "\$a": name part'):
        labels.parse("$a")
    with pytest.raises(SelectorError, match=r'^unable to parse requirement: values\[0\]\[a\]: Invalid value: "\$b": a'):
        labels.parse("a=$b")


KEYS = st.sampled_from(["a", "b", "app.example.com/name", "in", "notin", "exists", "x-1"])
VALUES = st.sampled_from(["", "a", "b", "in", "1", "22", "-", "x.y_z"]).filter(lambda value: value != "-")


@st.composite
def requirements(draw: st.DrawFn) -> LabelRequirement:
    operator = draw(st.sampled_from(["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]))
    if operator in ("exists", "!"):
        values = []
    elif operator in ("gt", "lt"):
        values = [str(draw(st.integers(0, 99)))]
    elif operator in ("in", "notin"):
        values = draw(st.lists(VALUES, min_size=1, max_size=3))
    else:
        values = [draw(VALUES)]
    return labels.requirement(draw(KEYS), operator, values)


@given(st.lists(requirements(), max_size=4))
def test_what_is_written_is_read_again(drawn: list[LabelRequirement]) -> None:
    selector = Selector(sorted(drawn, key=lambda one: one.key))
    assert labels.parse(str(selector)) == selector


def _plainly(one: LabelRequirement, given: dict[str, str]) -> bool:
    value = given.get(one.key)
    match one.operator:
        case "=" | "==" | "in":
            return value is not None and value in one.values
        case "!=" | "notin":
            return value is None or value not in one.values
        case "exists":
            return value is not None
        case "!":
            return value is None
    if value is None or not value.isdecimal():
        return False
    return int(value) > int(one.values[0]) if one.operator == "gt" else int(value) < int(one.values[0])


@given(st.lists(requirements(), max_size=4), st.dictionaries(KEYS, VALUES))
def test_the_compiled_function_is_the_conjunction(drawn: list[LabelRequirement], given: dict[str, str]) -> None:
    assert Selector(drawn).matches(given) is all(_plainly(one, given) for one in drawn)


@given(st.text(alphabet="ab=!(),<> \t\n\0in/.$é\ud800", max_size=30))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = labels.parse(text)
    except SelectorError:
        return
    assert selector.matches({"a": "b"}) in (True, False)


def test_a_long_text_is_read_and_a_longer_one_is_not() -> None:
    many = ",".join(f"k{i} in (a,b,c)" for i in range(1000))
    assert len(labels.parse(many).requirements) == 1000
    for text in (many + ",x", ",".join(["x=y"] * 1001), ",".join(["x"] * 30_000), "(" * 60_000):
        with pytest.raises(SelectorError):
            labels.parse(text)
    with pytest.raises(SelectorError, match="more than 1000 requirements"):
        labels.parse(many + ",x")
    values = ",".join(f"v{i}" for i in range(9000))
    assert len(labels.parse(f"a in ({values})").requirements[0].values) == 9000
    with pytest.raises(SelectorError, match="has 65537 characters, at most 65536 are allowed"):
        labels.parse("a" * 65_537)


class Counted(dict[str, str]):
    """Labels that count how often they are looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "terms",
    [
        ["a!=b"] * 1000,
        [f"a!=v{i}" for i in range(1000)],
        [f"a!=v{i}" for i in range(500)] + [f"b!=v{i}" for i in range(500)],
        [f"k{i}!=v" for i in range(1000)],
        [f"!k{i}" for i in range(1000)],
        [f"k{i}" for i in range(1000)],
        [f"k{i}=v" for i in range(1000)],
        ["a"] * 500 + ["a notin (x,y)"] * 500,
        ["a=c"] * 999 + ["a!=d"],
    ],
)
def test_a_thousand_terms_look_at_few_labels_a_few_times(terms: list[str]) -> None:
    selector = labels.parse(",".join(terms))
    given = Counted(a="c", b="d", k3="w")
    expected = all(_plainly(one, dict(given)) for one in selector.requirements)
    assert selector.matches(given) is expected
    assert given.looks <= 6


def test_what_no_labels_can_have_is_matched_by_none() -> None:
    for text in ("a=b,a=c", "a,!a", "a in (b,c),a notin (b,c)", "a in (1,2),a>2", "a=b,a!=b"):
        selector = labels.parse(text)
        for one in ({}, {"a": "b"}, {"a": "c"}, {"a": "1"}):
            assert not selector.matches(one)


def test_numbers_beyond_64_bits_never_match() -> None:
    with pytest.raises(SelectorError, match="must be an integer"):
        labels.parse("a>" + "9" * 40)
    assert not labels.parse("a>1").matches({"a": "9" * 40})
