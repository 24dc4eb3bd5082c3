"""`PublishedTypes`: the types of a Kubernetes release as its OpenAPI v3 documents have them.

The data of a release lacks what only version 3 says: defaults, and choices. Most defaults follow from the types, since
Go publishes the zero value of what is no pointer; ``published.json`` has the others, made by
``tools/published_types.py``. ``meta_types.json`` has the types that every server has, complete, and
``parameters.json`` what is said of query parameters.
References are written ``{"$ref": "io.k8s.api.core.v1.PodSpec"}``.
Must not know: which kinds are served, how documents look. See also: `files`.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from oarlock.schema.definition import Schema

_PACKAGE = "kubernetes_validate"
_FOLDER = re.compile(r"v(\d+)\.(\d+)\.\d+-local")
_FILE = re.compile(r"v(\d+)\.(\d+)\.json\.gz")
_OWN_PLACE = Path(__file__).parent


class _Document(msgspec.Struct):
    defs: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


def release_files() -> Iterator[tuple[tuple[int, ...], Path]]:
    """By release, as numbers, the file of its types: the one that came with oarlock, and those of the package."""
    for file in _OWN_PLACE.glob("v*.json.gz"):
        named = _FILE.fullmatch(file.name)
        if named is not None:
            yield (int(named[1]), int(named[2])), file
    spec = importlib.util.find_spec(_PACKAGE)
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for folder in (Path(place) / "kubernetes-json-schema").glob("v*-local"):
            named = _FOLDER.fullmatch(folder.name)
            if named is not None and (folder / "_definitions.json").is_file():
                yield (int(named[1]), int(named[2])), folder / "_definitions.json"


def read_types(file: Path) -> Mapping[str, msgspec.Raw]:
    """The types in a file by name, each as JSON that isn't decoded yet."""
    data = file.read_bytes()
    return msgspec.json.decode(gzip.decompress(data) if file.suffix == ".gz" else data, type=_Document).defs


_PLACE: Final = Path(__file__).parent
_MACHINERY: Final = "io.k8s.apimachinery.pkg."
QUANTITY: Final = f"{_MACHINERY}api.resource.Quantity"
INT_OR_STRING: Final = f"{_MACHINERY}util.intstr.IntOrString"
_ZERO: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_SCALARS: Final = frozenset(
    {
        QUANTITY,
        INT_OR_STRING,
        *(f"{_MACHINERY}apis.meta.v1.{name}" for name in ("Time", "MicroTime", "Duration")),
        f"{_MACHINERY}runtime.RawExtension",
    }
)
"""Types that are no objects with fields: Go publishes no default of them."""
_NODES: Final = ("items", "additionalProperties")

TypeFacts = Mapping[str, Mapping[str, Schema]]
"""By type and field (``name`` or ``name[]`` of its items): a default, which null takes away; choices; more text."""


class PublishedTypes:
    """The types of one release. `version` is its minor version: ``1.37``. Its data is read when it is first needed."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def schema(self, name: str) -> Schema:
        """The schema of a type. KeyError if there is none."""
        return typed_tree(msgspec.json.decode(self._types[name]), self._facts.get(name, {}))

    @cached_property
    def _types(self) -> Mapping[str, msgspec.Raw]:
        found = next((file for minor, file in release_files() if ".".join(map(str, minor)) == self.version), None)
        return {} if found is None else read_types(found)

    @cached_property
    def _facts(self) -> TypeFacts:
        facts: TypeFacts = msgspec.json.decode((_PLACE / "published.json").read_bytes())
        return facts


@cache
def published_types(version: str) -> PublishedTypes:
    """The types of a release, such as ``1.37``; none if its data isn't installed."""
    return PublishedTypes(version)


@cache
def meta_types() -> Mapping[str, Schema]:
    """The types that every server has, by name: ObjectMeta, ListMeta, Status… Don't change them."""
    found: Mapping[str, Schema] = msgspec.json.decode((_PLACE / "meta_types.json").read_bytes())
    return found


@cache
def parameter_texts() -> Mapping[str, str]:
    """What is said of each query parameter, by name.

    What is said of one of a patch, where it is something else, is under ``patch name``.
    """
    found: Mapping[str, str] = msgspec.json.decode((_PLACE / "parameters.json").read_bytes())
    return found


def typed_tree(tree: Mapping[str, Any], facts: Mapping[str, Schema]) -> Schema:
    """A type of the data as version 3 publishes it."""
    made = _node(tree, "", facts)
    required = tree.get("required", ())
    if "properties" in tree:
        made["properties"] = {
            name: _member(field, name, facts, needed=name in required) for name, field in tree["properties"].items()
        }
    return made


def _member(tree: Mapping[str, Any], path: str, facts: Mapping[str, Schema], *, needed: bool) -> Schema:
    """A field or an item, with its default."""
    made = _node(tree, path, facts)
    fact = facts.get(path, {})
    default = fact["default"] if "default" in fact else _default_of(made, path, needed=needed)
    if "description" in fact:
        made["description"] = made.get("description", "") + fact["description"]
    if "enum" in fact:
        made["enum"] = fact["enum"]
    if default is not None:
        made["default"] = default
    if "$ref" in made and len(made) > 1:
        made["allOf"] = [{"$ref": made.pop("$ref")}]
    return made


def _default_of(made: Schema, path: str, *, needed: bool) -> Any:
    """What Go publishes as the default of a field or an item, without knowing whether it is a pointer."""
    if not needed and path != "metadata":
        return None
    if "$ref" in made:
        return None if made["$ref"] in _SCALARS else {}
    return None if made.get("format") == "byte" else _ZERO.get(made.get("type", ""))


def _node(tree: Mapping[str, Any], path: str, facts: Mapping[str, Schema]) -> Schema:
    """A node without its fields. The data allows null everywhere, and one choice for kind and apiVersion."""
    made: Schema = {}
    for key, value in tree.items():
        if key == "$ref":
            made["$ref"] = value.rpartition("/")[2]
        elif key == "type":
            made["type"] = value if isinstance(value, str) else value[0]
        elif key in _NODES and isinstance(value, dict):
            made[key] = _member(value, f"{path}[]", facts, needed=True)
        elif key not in ("enum", "properties", "additionalProperties"):
            made[key] = value
    return made
