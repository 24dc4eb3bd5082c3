"""OpenAPI v2 of groups and versions that other servers serve: what is taken of their documents, and how it is merged.

Their documents are believed in nothing: what can't be read, or is too large, is left out. Pure functions, without
recursion, because somebody else decides how deep a document is.
Must not know: who fetches it. See also: `parts`. Source: k8s.io/kube-openapi ``aggregator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from oarlock.meta.json_trees import Tree

MOST_BYTES = 2 * 1024 * 1024
"""A document with more bytes isn't looked at: decoding it would hold up requests."""

MOST_MERGED_BYTES = 32 * 1024 * 1024
"""What is taken of all documents together; those of groups that come last are left out."""

DEFINITION, PARAMETER = "#/definitions/", "#/parameters/"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_encode = msgspec.json.Encoder(order="deterministic").encode


def taken_from(data: bytes, group: str, version: str) -> bytes:
    """The paths of a group and version in a document, and the definitions they refer to, as canonical JSON.

    Parameters that operations refer to are put in their place. Raises ValueError.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"over {MOST_BYTES} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(document, dict):
        raise ValueError("not an object")
    root = f"/apis/{group}/{version}"
    paths = {
        path: item
        for path, item in _members(document, "paths")
        if isinstance(item, dict) and (path == root or path.startswith(f"{root}/"))
    }
    parameters = dict(_members(document, "parameters"))
    room = MOST_BYTES
    for item in paths.values():
        for holder in (item, *(item.get(method) for method in _METHODS)):
            if isinstance(holder, dict) and isinstance(holder.get("parameters"), list):
                room = _in_place(holder, parameters, room)
    known = {name: definition for name, definition in _members(document, "definitions") if isinstance(definition, dict)}
    definitions = {name: known[name] for name in _reachable(paths, known)}
    return _encode({"paths": paths, "definitions": definitions})


def _members(document: Tree, name: str) -> Iterable[tuple[str, Any]]:
    found = document.get(name)
    return found.items() if isinstance(found, dict) else ()


def _in_place(holder: Tree, parameters: Tree, room: int) -> int:
    """Put parameters in the place of references; returns how many of `room` bytes are left. Raises ValueError."""
    made = []
    for parameter in holder["parameters"]:
        reference = parameter.get("$ref") if isinstance(parameter, dict) else None
        if isinstance(reference, str) and reference.startswith(PARAMETER):
            parameter = parameters.get(reference.removeprefix(PARAMETER))
            room -= len(_encode(parameter))
            if room < 0:
                raise ValueError("its parameters take too much")
        if isinstance(parameter, dict) and "$ref" not in parameter:
            made.append(parameter)
    holder["parameters"] = made
    return room


def _reachable(start: Any, known: Mapping[str, Any]) -> set[str]:
    """The names of the definitions that `start` refers to, and those refer to, and so on."""
    found: set[str] = set()
    to_do = [start]
    while to_do:
        for name, _ in _references(to_do.pop()):
            if name in known and name not in found:
                found.add(name)
                to_do.append(known[name])
    return found


def _references(tree: Any) -> Iterator[tuple[str, Tree]]:
    """The definitions that a tree refers to, each with the object that says so."""
    to_do = [tree]
    while to_do:
        node = to_do.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith(DEFINITION):
                yield reference.removeprefix(DEFINITION), node
            to_do += node.values()
        elif isinstance(node, list):
            to_do += node


class _Definitions:
    """The definitions of all documents: as they were received, and as they are shown, with other names where needed."""

    def __init__(self, own: Callable[[str], Tree | None]) -> None:
        self._own = own
        self._received: Tree = {}
        self.shown: Tree = {}

    def names(self, theirs: Tree) -> dict[str, str]:
        """What each definition is to be called: as one that says the same, of the same; else a name that is free."""
        names = {name: self._name(name, definition, theirs) for name, definition in theirs.items()}
        users: dict[str, list[str]] = {}
        for name, definition in theirs.items():
            for used, _ in _references(definition):
                users.setdefault(used, []).append(name)
        new = {name for name, called in names.items() if self._as_received(called) is None}
        to_do = [name for name in theirs if name not in new]
        while to_do:
            name = to_do.pop()
            if name in new or self._refers_alike(theirs[name], names[name], names):
                continue
            new.add(name)
            names[name] = self._name(name, None, theirs)
            to_do += users.get(name, ())
        return names

    def add(self, theirs: Tree, names: Mapping[str, str]) -> None:
        """Take definitions over, in which references are changed."""
        for name, definition in theirs.items():
            called = names[name]
            if self._as_received(called) is None:
                self._received[called] = msgspec.json.decode(_encode(definition))
                self.shown[called] = definition

    def _as_received(self, called: str) -> Tree | None:
        found = self._own(called)
        return found if found is not None else self._received.get(called)

    def _name(self, name: str, definition: Tree | None, theirs: Tree) -> str:
        called, number = name, 1
        while (known := self._as_received(called)) is not None or (number > 1 and called in theirs):
            if known is not None and known == definition:
                break
            number += 1
            called = f"{name}_v{number}"
        return called

    def _refers_alike(self, definition: Tree, called: str, names: Mapping[str, str]) -> bool:
        shown = self.shown.get(called) or self._own(called)
        return [names.get(name, name) for name, _ in _references(definition)] == [
            name for name, _ in _references(shown)
        ]


def merged(own: Callable[[str], Tree | None], documents: Iterable[bytes]) -> tuple[Tree, Tree]:
    """The paths and definitions of `documents`, as `taken_from` gives them, that are to be beside this server's own.

    `own` gives a definition of this server's. One that says the same under the same name is there once. One that says
    something else gets another name: ``…_v2``, ``…_v3``.
    """
    paths: Tree = {}
    definitions = _Definitions(own)
    room = MOST_MERGED_BYTES
    for data in documents:
        room -= len(data)
        if room < 0:
            break
        document = msgspec.json.decode(data)
        theirs: Tree = document["definitions"]
        names = definitions.names(theirs)
        definitions.add(theirs, names)
        for tree in (document["paths"], theirs):
            for name, holder in tuple(_references(tree)):
                holder["$ref"] = DEFINITION + names.get(name, name)
        paths |= document["paths"]
    return paths, definitions.shown
