"""Prints how the OpenAPI documents of our control plane differ from those of kube-apiserver, a difference a line.

    go mod download -json k8s.io/kubernetes@v1.36.2        # says where it puts it
    python tools/compare_openapi.py FOLDER

A FOLDER is the source of a release, whose ``api/openapi-spec`` has the documents. Those don't say which values a field
may have, nor do they have what a server adds: where we say more of it, that is no difference.
See also: `published_types`, which makes our data of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from published_types import POSSIBLE, Tree, documents, types_of

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.schema.released.published import meta_types, published_types
from oarlock.testing import InMemory

METHODS = ("get", "put", "post", "delete", "patch")


async def served() -> dict[str, Tree]:
    """The documents of our control plane by name."""
    async with InMemory(ControlPlane()) as api:
        index = json.loads((await api.get("/openapi/v3")).body)["paths"]
        return {name: json.loads((await api.get(f"/openapi/v3/{name}")).body) for name in index}


def differences(folder: Path) -> Iterator[str]:
    """What differs: types, documents, paths, operations, parameters, bodies and answers."""
    ours, theirs = asyncio.run(served()), dict(documents(folder))
    yield from _types(folder, ours)
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            yield f"{name}: {'we have no such document' if name not in ours else 'only we have it'}"
        else:
            yield from _document(name, ours[name], theirs[name])


def _types(folder: Path, ours: dict[str, Tree]) -> Iterator[str]:
    """The types of the release, as we would publish them, field by field."""
    minor = re.search(r"v(1\.\d+)", folder.name)
    known = published_types(minor[1]) if minor else None
    wanted = {name for document in ours.values() for name in document.get("components", {}).get("schemas", {})}
    for name, tree in sorted(types_of(folder).items()):
        if name in wanted and known is not None and name in known:
            yield from _tree(name, meta_types().get(name) or known.schema(name), tree)


def _tree(where: str, mine: Any, theirs: Any) -> Iterator[str]:
    if not (isinstance(mine, dict) and isinstance(theirs, dict)):
        if mine != theirs:
            yield f"{where}: {mine!r} instead of {theirs!r}"
        return
    for key in sorted(mine.keys() | theirs.keys()):
        if key == "description":
            yield from _tree(f"{where}.{key}", str(mine.get(key)).partition(POSSIBLE)[0], str(theirs.get(key)))
        elif key not in ("enum", "x-kubernetes-group-version-kind"):
            yield from _tree(f"{where}.{key}", mine.get(key), theirs.get(key))


def _document(name: str, mine: Tree, theirs: Tree) -> Iterator[str]:
    schemas = [one.get("components", {}).get("schemas", {}) for one in (mine, theirs)]
    yield from _sets(f"{name} schemas", *schemas)
    for path, item in theirs["paths"].items():
        if path not in mine["paths"]:
            yield f"{path}: we have no such path"
            continue
        for method in METHODS:
            ops = mine["paths"][path].get(method), item.get(method)
            if None in ops and ops != (None, None):
                yield f"{path} {method}: {'only they' if ops[0] is None else 'only we'} have it"
            elif ops[0] is not None:
                yield from _operation(f"{path} {method}", mine["paths"][path], item, method)
    yield from (f"{path}: only we have it" for path in mine["paths"] if path not in theirs["paths"])


def _operation(where: str, mine: Tree, theirs: Tree, method: str) -> Iterator[str]:
    told = [
        {p["name"]: p for holder in (one, one[method]) for p in holder.get("parameters", ())} for one in (mine, theirs)
    ]
    yield from _sets(f"{where} parameters", *told)
    for name in told[0].keys() & told[1].keys():
        yield from _tree(f"{where} parameter {name}", told[0][name], told[1][name])
    ours, other = mine[method], theirs[method]
    for key in ("operationId", "description", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"):
        yield from _tree(f"{where} {key}", ours.get(key), other.get(key))
    yield from _sets(f"{where} answers", ours["responses"], other["responses"])
    for code in ours["responses"].keys() & other["responses"].keys():
        yield from _content(f"{where} {code}", ours["responses"][code], other["responses"][code])
    yield from _content(f"{where} body", ours.get("requestBody", {}), other.get("requestBody", {}))


def _content(where: str, mine: Tree, theirs: Tree) -> Iterator[str]:
    contents = [one.get("content", {}) for one in (mine, theirs)]
    yield from _sets(f"{where} media types", *contents)
    for media in contents[0].keys() & contents[1].keys():
        yield from _tree(f"{where} {media}", contents[0][media], contents[1][media])


def _sets(where: str, mine: Tree, theirs: Tree) -> Iterator[str]:
    for text, names in (("only they have", theirs.keys() - mine.keys()), ("only we have", mine.keys() - theirs.keys())):
        if names:
            yield f"{where}: {text} {', '.join(sorted(names))}"


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for line in differences(parser.parse_args().folder):
        print(line)


if __name__ == "__main__":
    main()
