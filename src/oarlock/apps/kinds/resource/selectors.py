"""CEL selectors of devices: they are compiled when they are written, and run by the scheduler.

Source: Kubernetes' dynamic resource allocation, ``dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.meta.fielderrors import FieldError, Invalid, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.expression import DeclaredVariable, check_text
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import Node

_MOST: Final = 32
_MOST_BYTES: Final = 10 * 1024
_ANY: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.DYN))
_AMOUNTS: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.opaque("kubernetes.Quantity")))
_FIELDS: Final = {
    "driver": types.STRING,
    "attributes": _ANY,
    "capacity": _AMOUNTS,
    "allowMultipleAllocations": types.BOOL,
}


def _device() -> DeclaredVariable:
    decl = Decl(CelType("object", (), "kubernetes.DRADevice"), Node(type="object"), computed=True)
    decl.type.node = decl
    decl.fields = {name: (name, Decl(kind, Node())) for name, kind in _FIELDS.items()}
    return DeclaredVariable(decl.type, decl)


_VARIABLES: Final = {"device": _device()}


def check_selectors(selectors: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """Conditions of devices: at most 32, of at most 10 KiB, each true or false."""
    if len(selectors) > _MOST:
        yield TooMany(path, len(selectors), _MOST)
        return
    for i, selector in enumerate(selectors):
        if selector.get("cel") is None:
            yield Required(f"{path}[{i}].cel")
        else:
            yield from _check_expression(selector["cel"].get("expression") or "", f"{path}[{i}].cel.expression")


def _check_expression(text: str, path: str) -> Iterator[FieldError]:
    if len(text.encode()) > _MOST_BYTES:
        yield TooLong(path, _MOST_BYTES)
        return
    try:
        kind = check_text(text, _VARIABLES).type
    except CompileError as error:
        yield Invalid(path, text, f"compilation failed: {error}")
        return
    if kind.kind not in ("bool", "dyn"):
        yield Invalid(path, text, f"must evaluate to bool or the unknown type, not {kind}")
