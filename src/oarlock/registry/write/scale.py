"""``/scale``: an object shown and written as an autoscaling/v1 Scale.

`Scaling` is the mapping, without I/O. A write is an ordinary update of the object (conflicts, generation, admission,
validation), because `Scaling.change` only wraps the `Change` that the verb made.
Must not know: URLs, media types, how the object is stored. See also: `recipe`. Source: k8s.io/apiextensions-apiserver
``registry/customresource`` ScaleREST; autoscaling/v1 types.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from oarlock.codec.json import encode as encode_json
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, Conflict, InternalError, InvalidObject
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.patch.apply.schema import ValueType, object_type
from oarlock.patch.apply.validate import check
from oarlock.registry.read.recipes import Item
from oarlock.registry.served import Hooks
from oarlock.registry.stored.form import encode_body
from oarlock.registry.write.body import DecodedBody, normalize_body
from oarlock.registry.write.metadata import check_place
from oarlock.registry.write.recipe import Change
from oarlock.registry.write.replicas import path_steps
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Column, Names, ResourceDefinition, Scale, VersionDefinition
from oarlock.schema.structural import nodes as structural

__all__ = ["SCALE", "Scaling", "scale_type"]

_REPLICAS = {"type": "integer", "format": "int32"}

_SELECTOR = {"type": "string"}

SCALE = ResourceDefinition(
    group="autoscaling",
    names=Names("scales", "Scale"),
    scope="Namespaced",
    versions=(
        VersionDefinition(
            "v1",
            {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"replicas": _REPLICAS}},
                    "status": {"type": "object", "properties": {"replicas": _REPLICAS, "selector": _SELECTOR}},
                },
            },
            columns=(
                Column("Desired", ".spec.replicas", "integer", description="How many replicas there should be."),
                Column("Available", ".status.replicas", "integer", description="How many replicas there are."),
                Column("Age", ".metadata.creationTimestamp", "date", description="When the object was created."),
            ),
        ),
    ),
    hub="v1",
    stored_as="v1",
)
"""The kind of every ``/scale``."""

_SHOWN_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")

_NO_HOOKS = Hooks()

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class _Paths:
    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...]


@cache
def _compiled() -> CompiledVersion:
    return compile_version(SCALE, "v1")


@cache
def scale_type() -> ValueType:
    """The merge type of a Scale."""
    return object_type(structural.parse(SCALE.versions[0].schema))


_OPERATORS = {"In": "in", "NotIn": "notin"}


def _selector_text(selector: Tree) -> str:
    """A label selector as in a query. A plain map of labels is one, too."""
    plain = "matchLabels" not in selector and "matchExpressions" not in selector
    labels: Tree = selector if plain else selector.get("matchLabels") or {}
    terms = {key: f"{key}={value}" for key, value in labels.items()}
    for requirement in () if plain else selector.get("matchExpressions") or ():
        key, operator = requirement.get("key", ""), requirement.get("operator", "")
        if operator in _OPERATORS:
            terms[key] = f"{key} {_OPERATORS[operator]} ({','.join(sorted(requirement.get('values') or ()))})"
        else:
            terms[key] = key if operator == "Exists" else f"!{key}"
    return ",".join(terms[key] for key in sorted(terms))


class _ScaleItem(NamedTuple):
    """The Scale of an object of a result."""

    scaling: Scaling
    scaled: Item

    async def body(self, version: str) -> bytes:
        return encode_body(await self.tree(version))

    async def tree(self, version: str) -> Tree:
        return self.scaling.show(await self.scaled.tree(version))


def _check_type(scale: Tree) -> None:
    """Check the type of a patched number as Go does, before it knows which kind is scaled. Raises InvalidObject."""
    spec = scale.get("spec")
    value = spec.get("replicas") if isinstance(spec, dict) else None
    kind = _GO_KINDS.get(type(value))
    if kind is not None:
        text = encode_json({key: scale[key] for key in _ORDER if key in scale}).decode()
        why = f"json: cannot unmarshal {kind} into Go struct field ScaleSpec.spec.replicas of type int32"
        raise InvalidObject(GroupKind("", ""), "", [Invalid("patch", text, why)])


_GO_KINDS = {str: "string", bool: "bool", dict: "object", list: "array"}

_ORDER = ("apiVersion", "kind", "metadata", "spec", "status")


class Scaling:
    """One version's mapping between its objects and Scales. Immutable. Raises SchemaError for an unusable path."""

    __slots__ = ("_compiled", "_definition", "_paths", "_where")

    def __init__(self, definition: ResourceDefinition, where: Scale) -> None:
        self._definition = definition
        self._where = where
        selector = path_steps(where.label_selector_path) if where.label_selector_path else ()
        self._paths = _Paths(path_steps(where.spec_replicas_path), path_steps(where.status_replicas_path), selector)
        self._compiled = _compiled()

    def item(self, item: Item) -> Item:
        """The Scale of an object of a result."""
        return _ScaleItem(self, item)

    def show(self, tree: Tree) -> Tree:
        """The Scale of an object. Raises InternalError when the object has no replicas at the spec path.

        Zero replicas are included, which Go omits, so that a JSON patch finds the field it replaces; not in Kubernetes'
        own kinds, of which clients expect exactly what Kubernetes says.
        """
        scale = self._read(tree)
        if "replicas" not in scale["spec"]:
            raise InternalError(f'the spec replicas field "{self._where.spec_replicas_path}" does not exist')
        if self._definition.released and not scale["spec"]["replicas"]:
            scale["spec"] = {}
        return scale

    def change(self, change: Change, ctx: Context) -> Change:
        """Turns `change`, made for a Scale, into a change of the object.

        Only ``spec.replicas`` of the new Scale is used, and uid and resourceVersion as preconditions if it has them.
        The change raises BadRequest, InvalidObject and Conflict. That of an apply calls `configuration` itself.
        """
        if change.applies:
            return change

        def make(live: Tree) -> DecodedBody:
            seen = self._read(live)
            body = change.make({} if change.replaces else seen)
            if self._definition.released and not change.replaces:
                _check_type(body.tree)
            normalize_body(body, self._compiled, _NO_HOOKS, ctx)
            check_place(body.tree["metadata"], ctx.target, namespaced=self._definition.namespaced)
            wanted = self._wanted(body.tree, emptied=not change.replaces and "replicas" not in seen["spec"])
            self._check(body.tree, wanted, live)
            self._put(live, wanted)
            version = body.tree["metadata"].get("resourceVersion")
            if version:
                live["metadata"]["resourceVersion"] = version
            return DecodedBody(live, body.wording)

        return Change(make, replaces=False, offload_bytes=change.offload_bytes)

    def configuration(self, config: Tree, live: Tree) -> Tree:
        """The apply configuration of the object for that of a Scale; its manager then owns the replicas.

        Raises BadRequest, InvalidObject, Conflict, and TypedError for fields a Scale hasn't.
        """
        check(scale_type(), config)
        metadata = config["metadata"]
        wanted = self._wanted(config, emptied=True)
        self._check(config, wanted, live)
        translated: Tree = {
            "apiVersion": live["apiVersion"],
            "kind": live["kind"],
            "metadata": {
                name: metadata[name]
                for name in ("name", "namespace", "resourceVersion", "managedFields")
                if name in metadata
            },
        }
        self._put(translated, wanted)
        return translated

    def _read(self, tree: Tree) -> Tree:
        """The Scale of an object; its ``spec`` is empty when the object has no replicas at the spec path."""
        metadata = tree["metadata"]
        wanted = self._number(tree, self._paths.spec, "spec replicas")
        there = self._number(tree, self._paths.status, "status replicas")
        selector = self._found(tree, self._paths.selector) if self._paths.selector else _ABSENT
        status: Tree = {"replicas": there or 0}
        if type(selector) is dict:
            selector = _selector_text(selector)
        if isinstance(selector, str) and selector:
            status["selector"] = selector
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {name: metadata[name] for name in _SHOWN_METADATA if name in metadata},
            "spec": {} if wanted is None else {"replicas": wanted},
            "status": status,
        }

    def _number(self, tree: Tree, path: Sequence[str], what: str) -> int | None:
        found = self._found(tree, path)
        if found is _ABSENT or found is None:
            return None
        if type(found) is not int:
            raise InternalError(f'the {what} field ".{".".join(path)}" is not an integer')
        return found

    @staticmethod
    def _found(tree: Any, path: Sequence[str]) -> Any:
        for step in path:
            if type(tree) is not dict or step not in tree:
                return _ABSENT
            tree = tree[step]
        return tree

    def _wanted(self, scale: Tree, *, emptied: bool) -> int:
        wanted: int | None = (scale.get("spec") or {}).get("replicas")
        if wanted is None and emptied:
            raise BadRequest(f'the spec replicas field "{self._where.spec_replicas_path}" cannot be empty')
        return wanted or 0

    def _check(self, scale: Tree, wanted: int, live: Tree) -> None:
        name = live["metadata"].get("name", "")
        found: list[FieldError] = []
        if wanted < 0 and self._definition.typed:  # of a custom resource `replica_errors` tells it
            found.append(Invalid("spec.replicas", wanted, "must be greater than or equal to 0"))
        found += self._compiled.validate(scale)
        if found:
            raise InvalidObject(SCALE.group_kind, name, found)
        uid_sent, uid = scale["metadata"].get("uid"), live["metadata"].get("uid", "")
        if uid_sent and uid_sent != uid:
            why = f"Precondition failed: UID in precondition: {uid_sent}, UID in object meta: {uid}"
            raise Conflict(self._definition.group_resource, name, why)

    def _put(self, tree: Tree, wanted: int) -> None:
        *parents, last = self._paths.spec
        here = tree
        for step in parents:
            below = here.get(step)
            if below is None:
                below = here[step] = {}
            if type(below) is not dict:
                raise InternalError(f'the spec replicas field "{self._where.spec_replicas_path}" can\'t be set')
            here = below
        here[last] = wanted
