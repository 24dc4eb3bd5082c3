"""The types that Kubernetes publishes: makes our data of them.

    go mod download -json k8s.io/kubernetes@v1.36.2        # says where it puts it
    python tools/published_types.py FOLDER…                # the release that is followed first

A FOLDER is the source of a release: ``api/openapi-spec`` in it has the documents of its API server, and
``pkg/generated/openapi`` the choices of fields, which those documents leave out and a server shows.
See also: ``oarlock.schema.released.published``, which reads what is made here; `compare_openapi`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from oarlock.schema.released.published import typed_tree

PLACE = Path(__file__).parents[1] / "src" / "oarlock" / "schema" / "released"
REFERENCE = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg."
EVERYWHERE = (f"{META}apis.meta.v1.", f"{META}api.resource.", f"{META}util.intstr.", f"{META}runtime.")
OTHERS = (f"{META}version.Info", *(f"io.k8s.api.autoscaling.v1.Scale{part}" for part in ("", "Spec", "Status")))
GVK = "x-kubernetes-group-version-kind"
_FUNCTION = re.compile(r"^func schema_\w*?([a-z0-9]+)_(v\d\w*?)_(\w+)\(ref ")
_FIELD = re.compile(r'^\t{5}"([^"]+)": \{$')
_TEXT = re.compile(r'^(\t+)Description: +("(?:[^"\\]|\\.)*"),$')
_CHOICES = re.compile(r"^(\t+)Enum: +\[\]interface\{\}\{(.*)\},$")
ACTIONS = ("list", "post", "put", "delete", "deletecollection")
OF_PATHS = ("namespace", "pretty")
POSSIBLE = "\n\nPossible enum values:"

Tree = dict[str, Any]


def documents(folder: Path) -> Iterator[tuple[str, Tree]]:
    """The documents of version 3 by name: ``apis/apps/v1``."""
    for file in sorted((folder / "api" / "openapi-spec" / "v3").glob("*_openapi.json")):
        yield file.name.removesuffix("_openapi.json").replace("__", "/"), json.loads(file.read_bytes())


def types_of(folder: Path) -> Tree:
    """All types of a release, with references by name."""
    found: Tree = {}
    for _, document in documents(folder):
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            found.setdefault(name, _by_name(schema))
    return found


def _by_name(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_by_name(one) for one in tree]
    if not isinstance(tree, dict):
        return tree.removeprefix(REFERENCE) if isinstance(tree, str) else tree
    return {key: _by_name(one) for key, one in tree.items()}


def choices(folder: Path, names: Iterable[str]) -> Tree:
    """By type and field, the choices and the text about them."""
    known = {tuple(name.rsplit(".", 3)[1:]): name for name in names}
    found: Tree = {}
    name = field = ""
    depth = 0
    for line in (folder / "pkg/generated/openapi/zz_generated.openapi.go").read_text().splitlines():
        if function := _FUNCTION.match(line):
            name = known.get(function.groups(), "")
        elif one := _FIELD.match(line):
            field, depth = one[1], 0
        elif text := _TEXT.match(line):
            depth = depth or len(text[1])
            said = json.loads(text[2])
            if name and POSSIBLE in said:
                found.setdefault(name, {}).setdefault(field, {})["description"] = said[said.index(POSSIBLE) :]
        elif (one := _CHOICES.match(line)) and name:
            path = field if len(one[1]) == depth else f"{field}[]"
            found.setdefault(name, {}).setdefault(path, {})["enum"] = json.loads(f"[{one[2]}]")
    return found


def defaults(types: Tree) -> Tree:
    """By type and field, the defaults that don't follow from the types, by which `typed_tree` is right."""
    found: Tree = {}
    for name, tree in types.items():
        bare = _without_defaults(tree)
        for path, mine, theirs in _defaults(typed_tree(bare, {}), tree, ""):
            if (mine, type(mine)) != (theirs, type(theirs)):
                found.setdefault(name, {})[path] = {"default": theirs}
    return found


def _without_defaults(tree: Any) -> Any:
    """A type as the data has it: references alone, without defaults."""
    made = {key: value for key, value in tree.items() if key not in ("default", "allOf", "properties")}
    if "allOf" in tree:
        made |= tree["allOf"][0]
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _without_defaults(made[key])
    if "properties" in tree:
        made["properties"] = {name: _without_defaults(one) for name, one in tree["properties"].items()}
    return made


def _defaults(mine: Tree, theirs: Tree, path: str) -> Iterator[tuple[str, Any, Any]]:
    if path:
        yield path, mine.get("default"), theirs.get("default")
    for name, one in theirs.get("properties", {}).items():
        yield from _defaults(mine["properties"][name], one, name)
    for key in ("items", "additionalProperties"):
        if isinstance(theirs.get(key), dict):
            yield from _defaults(mine[key], theirs[key], f"{path}[]")


def make(folders: Sequence[Path]) -> None:
    """Write both files. What an earlier folder says of a field is kept."""
    facts: Tree = {}
    shared: Tree = {}
    before: Tree = {}
    for folder in folders:
        types = types_of(folder)
        for told in (defaults(types), choices(folder, types)):
            for name, fields in told.items():
                known = before.get(name, {}).get("properties", {})
                for path, fact in fields.items():
                    if path.rstrip("[]") not in known:
                        facts.setdefault(name, {}).setdefault(path, {}).update(fact)
        for name in types:
            if name in OTHERS or name.startswith(EVERYWHERE):
                shared.setdefault(name, _shared(types[name], name))
        before = {**types, **before}
    _write(PLACE / "published.json", facts)
    _write(PLACE / "meta_types.json", shared)
    _write(PLACE / "parameters.json", parameters(folders[0]))


def parameters(folder: Path) -> Tree:
    """What is said of each query parameter of lists and writes, by name; of those of patches, with ``patch`` before."""
    document = json.loads((folder / "api" / "openapi-spec" / "swagger.json").read_bytes())
    found: Tree = {}
    for item in document["paths"].values():
        for holder in (item, *(one for one in item.values() if isinstance(one, dict))):
            action = holder.get("x-kubernetes-action")
            for one in holder.get("parameters", ()):
                told = document["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
                name, text = told["name"], told.get("description")
                if action in ACTIONS or name in OF_PATHS:
                    found.setdefault(name, text)
                elif action == "patch" and found.get(name) != text:
                    found[f"patch {name}"] = text
    return {name: text for name, text in found.items() if text}


def _shared(tree: Tree, name: str) -> Tree:
    """A type that every server has. Some are listed as kinds of every version that is served: that isn't data."""
    return {key: one for key, one in tree.items() if key != GVK or not name.endswith((".DeleteOptions", ".WatchEvent"))}


def _write(file: Path, tree: Tree) -> None:
    """A member a line, so that a new release is a readable change."""
    lines = [f"{json.dumps(name)}:{json.dumps(tree[name], separators=(',', ':'), sort_keys=True)}" for name in tree]
    file.write_text("{\n" + ",\n".join(sorted(lines)) + "\n}\n")


def main() -> None:
    """Run from a command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    make(parser.parse_args().folder)


if __name__ == "__main__":
    main()
