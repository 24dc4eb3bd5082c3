"""The schema language of the shared tables, read into the engine's types: the fixture `smd_schema`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType

_INSIDE = DEDUCED.list.element if DEDUCED.list is not None else DEDUCED


class Schema:
    """Named types that refer to one another."""

    def __init__(self, text: str) -> None:
        self._definitions = {one["name"]: one for one in yaml.safe_load(text)["types"]}
        self._types: dict[str, ValueType] = {"__untyped_deduced_": DEDUCED, "__untyped_atomic_": _INSIDE}

    def names(self) -> list[str]:
        return list(self._definitions)

    def named(self, name: str) -> ValueType:
        if name not in self._types:
            self._types[name] = result = ValueType()
            self._fill(result, self._definitions[name])
        return self._types[name]

    def _ref(self, ref: dict[str, Any]) -> ValueType:
        type_ = self.named(ref["namedType"]) if "namedType" in ref else ValueType()
        if "namedType" not in ref:
            self._fill(type_, ref)
        override = ref.get("elementRelationship")
        if override is None:
            return type_
        result = ValueType(type_.scalar, type_.list, type_.map)
        if type_.map is not None:
            result.map = MapType(type_.map.fields, type_.map.element, atomic=override == "atomic")
        elif type_.list is not None:
            result.list = ListType(type_.list.element, override == "atomic", type_.list.keys, type_.list.defaults)
        return result

    def _fill(self, result: ValueType, said: dict[str, Any]) -> None:
        result.scalar = said.get("scalar")
        if "map" in said:
            result.map = MapType(atomic=said["map"].get("elementRelationship") == "atomic")
            for one in said["map"].get("fields") or ():
                result.map.fields[one["name"]] = self._ref(one["type"])
            if "elementType" in said["map"]:
                result.map.element = self._ref(said["map"]["elementType"])
        if "list" in said:
            atomic = said["list"].get("elementRelationship") == "atomic"
            keys = tuple(said["list"].get("keys") or ())
            result.list = ListType(self._ref(said["list"]["elementType"]), atomic, keys)
            if keys:
                result.list.defaults = self._defaults(said["list"]["elementType"], keys)

    def _defaults(self, ref: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
        said = self._definitions[ref["namedType"]] if "namedType" in ref else ref
        fields = {one["name"]: one.get("default") for one in said["map"].get("fields") or ()}
        return {key: fields[key] for key in keys if fields.get(key) is not None}


@pytest.fixture(scope="session")
def smd_schema() -> Callable[[str], Schema]:
    """`smd_schema(text).named("type")`: a type of the tables' schema language."""
    return Schema
