"""Traces of the reference engine: after every step the live object and what each manager owns must be the same.

All 123 traces of the table apply; none is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from oarlock.patch.apply import elements, fieldsets, validate
from oarlock.patch.apply.fieldsets import Filter, excluding, leaves, make
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.schema import DEDUCED, ValueType
from oarlock.patch.apply.updater import Convert, Owned, Updater, extract
from oarlock.patch.errors import ApplyConflict, TypedError, UnknownVersion

FILTERS: dict[int, dict[str, list[tuple[str, ...]]]] = {
    53: {"v1": [("f:string",)]},
    54: {"v1": [("f:obj",)]},
    55: {"v1": [("f:string",)]},
    56: {"v1": [("f:obj",)]},
    61: {f"v{n}": [("f:mapOfMapsRecursive", "f:" + "c" * n)] for n in (1, 2, 3, 4)},
    62: {"v2": [("f:mapOfMapsRecursive", "f:c")]},
    63: {"v2": [("f:mapOfMapsRecursive", "f:c")]},
}
"""The table doesn't say what is filtered in these traces, only that something is."""


def repeating(value: Any, _from: str, to: str) -> Any:
    """Below the first level, each name is its first letter as often as the version says; what is empty is null."""
    number = re.fullmatch(r"v([0-9]+)", to)
    if number is None:
        raise UnknownVersion(to)

    def again(inner: dict[str, Any] | None) -> Any:
        if not inner:
            return None
        return {name[0] * int(number[1]): again(child) for name, child in sorted(inner.items())}

    return {name: again(child) for name, child in value.items()} if isinstance(value, dict) else value


def reliant(value: Any, _from: str, to: str) -> Any:
    """v2 has a required field that v1 calls otherwise, and v1 can't be made without it."""
    names = {
        "v1": ("required_field_bar", "field_foo_rely_on_bar"),
        "v2": ("field_foo_rely_on_bar", "required_field_bar"),
    }
    if to not in names:
        raise UnknownVersion(to)
    old, new = names[to]
    value = value or {}
    if to == "v1" and old not in value and new not in value:
        raise AssertionError("missing required field")
    return {new if name == old else name: child for name, child in value.items()}


def same(value: Any, _from: str, _to: str) -> Any:
    return value


CONVERTERS: dict[str, Convert] = {
    "*fixture.dummyConverter": same,
    "merge_test.repeatingConverter": repeating,
    "merge_test.reliantFieldsConverter": reliant,
}


class AnyVersion(Mapping[str, ValueType]):
    """The types of a parser of the table, whatever the version is called."""

    def __init__(self, parser: dict[str, Any], schema: Callable[[str], Any]) -> None:
        self._kind = parser["kind"]
        self._schema = schema(parser["schema"]) if "schema" in parser else None
        self._name = parser.get("type", "")

    def __getitem__(self, version: str) -> ValueType:
        if self._schema is None:
            return DEDUCED
        name = version if self._kind == "by-version" else self._name
        if name not in self._schema.names():
            raise KeyError(version)
        found: ValueType = self._schema.named(name)
        return found

    def __iter__(self) -> Any:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


class State:
    """The object and its managers, on their way through one trace."""

    def __init__(self, trace: dict[str, Any], schema: Callable[[str], Any]) -> None:
        filters: dict[str, Filter] = {v: excluding(make(paths)) for v, paths in FILTERS.get(trace["id"], {}).items()}
        for version, fields in trace.get("ignoredFields", {}).items():
            filters[version] = excluding(fieldsets.decode(fields))
        assert bool(filters) == (trace["hasIgnoreFilter"] or "ignoredFields" in trace)
        self.schema, self.filters, self.convert = schema, filters, CONVERTERS[trace["converter"]]
        self.live: Any = None
        self.version = trace["steps"][0]["apiVersion"]
        self.managers: dict[str, Owned] = {}
        self.parse(trace["parser"])

    def parse(self, parser: dict[str, Any]) -> None:
        self.types = AnyVersion(parser, self.schema)
        self.updater: Updater[str] = Updater(self.types, self.convert, self.filters)

    def run(self, step: dict[str, Any]) -> None:
        if step["op"] == "ChangeParser":
            self.parse(step["schema"])
            return
        version, manager, given = step["apiVersion"], step["manager"], step["object"]
        type_ = self.types[version]
        if step["op"] != "Update":
            validate.check(type_, given)
        self.live = self.convert(self.live, self.version, version)
        self.version = version
        if step["op"] == "Update":
            managers = self.updater.reconciled(self.managers)
            self.managers = self.updater.update(self.live, given, version, managers, manager)
            self.live = given
            return
        if step["op"] == "ExtractApply" and self.live is not None:
            mine = self.managers.get(manager)
            assert mine is None or mine.version == version
            given = merge(type_, extract(type_, self.live, leaves(mine.fields) if mine else {}), given)
        force = step["op"] != "Apply"
        managers = self.updater.reconciled(self.managers)
        self.live, self.managers = self.updater.apply(self.live, given, version, managers, manager, force=force)

    def owned(self) -> dict[str, Any]:
        return {
            name: {"apiVersion": one.version, "applied": one.applied, "fields": one.fields}
            for name, one in self.managers.items()
        }


def test_every_trace_ends_where_the_reference_engine_does(
    shared_vectors: Callable[[str], Any], smd_schema: Callable[[str], Any]
) -> None:
    traces = [one for group in shared_vectors("smd_merge.json")["groups"].values() for one in group]
    assert len(traces) == 123
    wrong = []
    for trace in traces:
        state = State(trace, smd_schema)
        for number, step in enumerate(trace["steps"]):
            complaint = differs(state, step)
            if complaint:
                wrong.append(f"{trace['id']} {trace['test']} step {number} {step['op']}: {complaint}")
                break
    assert not wrong, "\n".join(wrong)


def differs(state: State, step: dict[str, Any]) -> str:
    conflicts, error = [], None
    try:
        state.run(step)
    except ApplyConflict as refused:
        conflicts = [{"manager": one.manager, "path": elements.path_text(one.path)} for one in refused.conflicts]
    except TypedError as refused:
        error = str(refused)
    if conflicts != step.get("conflicts", []):
        return f"conflicts {conflicts}"
    if error != step.get("error"):
        return f"error {error}"
    if state.live != step["live"] and not (not state.live and not step["live"]):
        return f"live {state.live} instead of {step['live']}"
    if state.owned() != step["managers"]:
        return f"managers {state.owned()} instead of {step['managers']}"
    return ""


@pytest.mark.parametrize("op", ["Apply", "ForceApply"])
def test_a_null_live_object_is_an_empty_one(op: str) -> None:
    updater: Updater[str] = Updater({"v1": DEDUCED})
    merged, managers = updater.apply(None, {"a": 1}, "v1", {}, "m", force=op != "Apply")
    assert merged == {"a": 1}
    assert managers == {"m": Owned({"f:a": {}}, "v1", applied=True)}
