"""The JSON paths of columns and selectable fields, and what cells show of what they find."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta.times import parse_rfc3339
from oarlock.schema.cells import cell, compile_cell
from oarlock.schema.definition import Column
from oarlock.schema.jsonpath import PathError, compile_path, simple_steps

TREE: Any = {
    "metadata": {"name": "n", "annotations": {"example.com/k": "v"}},
    "spec": {"replicas": 3, "a.b": 1, "list": [1, 2, 3], "items": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"v": 3}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        ("$.spec.replicas", [3]),
        (".spec.nope.deeper", []),
        (".spec['a.b']", [1]),
        ('.spec["a.b"]', [1]),
        (".spec.a\\.b", [1]),
        (".metadata.annotations.example\\.com/k", ["v"]),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [3]),
        (".spec.list[7]", []),
        (".spec.list[0:2]", [1, 2]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[0,2]", [1, 3]),
        (".spec.list[*]", [1, 2, 3]),
        (".spec.items[*].n", ["x", "y"]),
        (".spec.items[?(@.v>1)].v", [2, 3]),
        (".spec.items[?(@.n)].v", [1, 2]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].status", ["False"]),
        ("..n", ["x", "y"]),
        (".spec.items[0]['n','v']", ["x", 1]),
        (".metadata.*", ["n", {"example.com/k": "v"}]),
        (".spec.list.x", []),
        (".", [TREE]),
    ],
)
def test_what_a_path_finds(path: str, expected: Any) -> None:
    assert compile_path(path)(TREE) == expected


@pytest.mark.parametrize(
    ("path", "column"),
    [
        ("spec", 1),
        (".spec.", 7),
        (".spec[", 7),
        (".spec[abc]", 7),
        (".spec[0", 8),
        (".spec[?(@.a]", 12),
        (".spec[?(@.a==)]", 14),
        (".spec['a]", 7),
        ("{.spec", 7),
        (".spec}", 6),
        (".a..", 5),
        (".spec[::0]", 10),
        (".spec[1.0]", 7),
        ("", 1),
    ],
)
def test_a_mistake_is_told_with_its_column(path: str, column: int) -> None:
    if path == "":
        assert compile_path(path)(TREE) == [TREE]
        return
    with pytest.raises(PathError) as caught:
        compile_path(path)
    assert caught.value.column == column


def test_simple_paths() -> None:
    assert simple_steps(".spec.a\\.b['c.d']") == ("spec", "a.b", "c.d")
    assert simple_steps(".a") == ("a",)
    assert simple_steps(".a[0]") == simple_steps("..a") == simple_steps(".") == ()


@given(st.text(alphabet=".[]'\"?(@=<>0123456789ab*,:{}$\\ -", max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        find = compile_path(text)
    except PathError:
        return
    assert isinstance(find(TREE), list)


def test_descending_has_a_limit() -> None:
    deep: Any = {}
    for _ in range(50_000):
        deep = {"a": deep}
    assert len(compile_path("..a")(deep)) <= 10_000


def test_a_long_path_is_refused() -> None:
    with pytest.raises(PathError):
        compile_path(".a" * 5000)


def test_cells(shared_vectors: Any) -> None:
    groups = shared_vectors("crd_validation.json")["groups"]
    cases = groups["tableconvertor:tableconvertor.Test_cellForJSONValue.tests"]
    assert len(cases) == 23
    # the table was made half a day after the one date in it and half a day before the other
    now = parse_rfc3339("2026-11-20T12:32:41Z")
    for case in cases:
        if case["headerType"] == "string" and not isinstance(case["value"], str):
            continue  # a column of texts shows any value as text before it is a cell: 3 cases
        assert cell([case["value"]], case["headerType"], now) == case.get("want"), case


def test_rows(shared_vectors: Any) -> None:
    groups = shared_vectors("crd_validation.json")["groups"]
    cases = groups["tableconvertor:tableconvertor.Test_convertor_ConvertToTable.tests"]
    ran = 0
    for case in cases:
        columns = case["fields"].get("additionalColumns")
        if columns is None:
            continue  # how tables are put together isn't decided here: 4 cases
        ran += 1
        types = [header["Type"] for header in case["fields"]["headers"][1:]]
        cells = [
            compile_cell(Column(column["name"], column["parser"]["input"], kind))(case["args"]["obj"], 0.0)
            for column, kind in zip(columns, types, strict=True)
        ]
        assert cells == case["want"]["Rows"][0]["Cells"][1:], case["name"]
    assert ran == 3


def test_dates_are_ages() -> None:
    now = datetime(2026, 11, 20, 13, tzinfo=UTC).timestamp()
    assert cell(["2026-11-20T12:00:00Z"], "date", now) == "60m"
    assert cell(["tomorrow"], "date", now) == "<invalid>"
    assert cell([""], "date", now) == "<unknown>"
    assert cell([], "date", now) is None
