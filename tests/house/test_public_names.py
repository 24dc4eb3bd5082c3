"""A program written for the last release still runs: its names are there, and take what they took."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "public_names.py"))


def test_the_names_of_the_last_release_take_what_they_took(tool: dict[str, Any]) -> None:
    record = json.loads(tool["RECORD"].read_text())
    assert f"## {record['release']}" in (ROOT / "CHANGELOG.md").read_text()
    assert list(tool["broken"](record["names"], tool["described"]())) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"f": {"": "a"}}, {}, "f is gone"),
        ({"f": {"": ""}}, {"f": {}}, "f is gone, or isn't callable any more"),
        ({"f": {"m": "self"}}, {"f": {}}, "f.m is gone, or isn't callable any more"),
        ({"f": {"": "a, b"}}, {"f": {"": "a"}}, "f: doesn't take b any more"),
        ({"f": {"": "a=..."}}, {"f": {"": "a"}}, "f: a has become required"),
        ({"f": {"": "a, b"}}, {"f": {"": "b, a"}}, "f: a can't be given by its place any more"),
        ({"f": {"": "a"}}, {"f": {"": "*, a"}}, "f: a can't be given by its place any more"),
        ({"f": {"": "a, /"}}, {"f": {"": ""}}, "f: doesn't take a any more"),
        ({"f": {"": "**a"}}, {"f": {"": ""}}, "f: doesn't take **a any more"),
        ({"f": {"": "a"}}, {"f": {"": "a, *, b"}}, "f: b is new and required"),
        ({"f": {"": "a"}}, {"f": {"": "a, b"}}, "f: a new argument is required"),
    ],
)
def test_a_name_that_takes_less_is_noticed(tool: dict[str, Any], before: Any, after: Any, said: str) -> None:
    assert said in list(tool["broken"](before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a=..."),
        ("a", "a, b=..., *, c=..."),
        ("a, *, b", "a, b=..."),
        ("a, /", "other, /, b=..."),
        ("*, a", "**keywords"),
        ("*, b, a", "*, a, b"),
    ],
)
def test_a_name_may_take_more(tool: dict[str, Any], before: str, after: str) -> None:
    assert list(tool["broken"]({"f": {"": before}}, {"f": {"": after}})) == []
