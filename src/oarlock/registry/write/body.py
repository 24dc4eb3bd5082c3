"""What a request may make of an object: its body typed, pruned and defaulted, and confined to the part it may write.

`normalize_body` works on a parsed body, in the request version; error messages depend on the verb, which passes a
`Wording`. An `ObjectPart` is what a path (the object, ``/status``, a part) may change: the rest comes from the live
object.
Must not know: bytes, media types. See also: `recipe`, which runs both on every tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.meta.fielderrors import FieldError, Undecodable
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.patch.apply.fieldsets import Filter, excluding, including, make
from oarlock.registry.served import Hooks
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.types.views import ViewError

__all__ = [
    "STATUS",
    "YAML_ERRORS",
    "BodyWording",
    "DecodedBody",
    "FieldPath",
    "ObjectPart",
    "Parts",
    "Wording",
    "compile_bodies",
    "field_filters",
    "fields_of",
    "normalize_body",
    "parts_of",
    "top_of",
]

_OWNERS_TWICE = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


YAML_ERRORS = "yaml: unmarshal errors:\n"
"""How go-yaml begins its errors, which are one problem with a line for each."""


class Wording(Protocol):
    """The error messages of a verb for a body that is refused."""

    def type_errors(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        """The error for values of the wrong JSON type; `problems` are those that strict field validation found."""
        ...

    def strict(self, problems: list[str]) -> StatusError:
        """The error for `problems` of strict field validation: unknown and duplicate fields."""
        ...


class BodyWording(NamedTuple):
    """The messages of POST and PUT: 400, ``X in version "v1" cannot be handled as a X: …``."""

    kind: str
    version: str

    def type_errors(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        if isinstance(errors[0], Undecodable):
            refusal = BadRequest(self._refused(errors[0].body))
        else:
            texts = [*(error.message for error in errors), *problems]
            causes = [error.cause() for error in errors]
            refusal = BadRequest(self._refused(", ".join(texts)), details={"causes": causes})
        refusal.errors = errors
        return refusal

    def strict(self, problems: list[str]) -> StatusError:
        return BadRequest(self._refused("strict decoding error: " + ", ".join(problems)))

    def _refused(self, why: str) -> str:
        return f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {why}'


class DecodedBody(Struct, eq=False):
    """A tree that the recipe may change, and the problems that strict decoding of its bytes found.

    `in_order` puts the paths of unknown fields among the problems, if they don't simply follow. `derived` is True when
    the tree is the result of a patch or of mutating admission, not what a client sent. `offload_bytes` is that of the
    bytes it was decoded from (see `workers.offload_bytes`).
    """

    tree: Tree
    wording: Wording
    problems: list[str] = []
    derived: bool = False
    offload_bytes: int = 0
    in_order: Callable[[list[str]], list[str]] | None = None


def normalize_body(body: DecodedBody, compiled: CompiledVersion, hooks: Hooks, ctx: Context) -> None:
    """Prune, default and type-check the tree in place, by the schema and hooks of the request version.

    Wrong JSON types are refused (only of declared types; for a CRD schema, validation reports them with everything
    else). Undeclared fields are removed and, as ``fieldValidation`` says, ignored, warned of or refused. Null and empty
    values and duplicate owner references are removed. Then the schema's defaults are set and the type's own `default()`
    is called.
    """
    tree = body.tree
    metadata = tree.get("metadata")
    if metadata is None:
        tree["metadata"] = {}
    if compiled.untouched(tree):
        if body.problems:
            _report(body, [], ctx)
    else:
        _check_and_prune(body, compiled, ctx)
    if "ownerReferences" in tree["metadata"]:
        _deduplicate_owners(body, ctx)
    compiled.default(tree)
    default = hooks.default.get(ctx.target.version)
    if default is not None:
        try:
            body.tree = default(tree, ctx)
        except ViewError:
            pass  # ignored here: validation reports a missing field with all other errors


def _check_and_prune(body: DecodedBody, compiled: CompiledVersion, ctx: Context) -> None:
    """Check types; remove undeclared fields, null and empty values."""
    tree = body.tree
    type_errors = compiled.type_errors(tree)
    if type_errors:
        raise body.wording.type_errors(type_errors, _problems(body, compiled.prune(tree)) if _is_strict(ctx) else [])
    unknown = compiled.prune(tree)
    if unknown or body.problems:
        _report(body, unknown, ctx)
    resets = tree["metadata"].get("managedFields") in ([], [{}])
    compiled.normalize(tree)
    if resets:
        tree["metadata"]["managedFields"] = [{}]  # unlike a missing one, it asks to forget all owners


def _deduplicate_owners(body: DecodedBody, ctx: Context) -> None:
    """Remove duplicate owner references, with a warning to the client."""
    metadata = body.tree["metadata"]
    owners = metadata["ownerReferences"]
    once = {tuple(sorted(owner.items())): owner for owner in reversed(owners)}
    if len(once) == len(owners):
        return
    unique, duplicates = [], []
    for owner in owners:
        first = once.pop(tuple(sorted(owner.items())), None)
        if first is None:
            duplicates.append(owner.get("uid", ""))
        else:
            unique.append(first)
    metadata["ownerReferences"] = unique
    when = " after mutating admission happens" if body.derived else ""
    ctx.warn(_OWNERS_TWICE.format(when, ", ".join(duplicates)))


def _is_strict(ctx: Context) -> bool:
    return ctx.options is not None and ctx.options.field_validation == "Strict"


def _problems(body: DecodedBody, unknown: list[str]) -> list[str]:
    if body.in_order is not None:
        return body.in_order(unknown)[:100]
    return [*body.problems, *(f"unknown field {quote(path)}" for path in unknown)][:100]


def _report(body: DecodedBody, unknown: list[str], ctx: Context) -> None:
    validation = ctx.options.field_validation if ctx.options is not None else "Ignore"
    if validation == "Ignore":
        return
    problems = _problems(body, unknown)
    if validation == "Strict":
        raise body.wording.strict(problems)
    for problem in problems:
        for line in problem.removeprefix(YAML_ERRORS).split("\n"):
            ctx.warn(line.strip())


def compile_bodies(definition: ResourceDefinition) -> dict[tuple[str, str], CompiledVersion]:
    """The compiled body types of subresources, by version and name; no entry for a subresource without a body."""
    compiled = {}
    for version in definition.versions:
        for subresource in version.subresources:
            if subresource.request_schema:
                kind = subresource.kind
                only = VersionDefinition(kind.version, subresource.request_schema)
                names = Names(subresource.name, kind.kind)
                body = ResourceDefinition(kind.group, names, "Cluster", (only,), hub=only.name, stored_as=only.name)
                compiled[version.name, subresource.name] = compile_version(body, only.name)
    return compiled


def fields_of(tree: Tree, other: Tree, names: Iterable[str]) -> Tree:
    """`tree` with these fields as copies of those in `other`."""
    made = {**tree}
    for name in names:
        if name in other:
            made[name] = copy_json(other[name])
        else:
            made.pop(name, None)
    return made


def top_of(path: str) -> str:
    """The top-level field that a path is in; empty for the object itself."""
    found = re.match(r"[^.\[]+", path)
    return "" if found is None or path.startswith("<nil>") else found[0]


FieldPath = tuple[str, ...]
"""The names of nested fields, from the top of the object."""

STATUS: Final = "status"

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """The fields that a write may change: `fields`, or all if that is empty, and in them not `resets`.

    `name` is that of the subresource; empty for the object itself. `counts` says that a change increments generation,
    `takes_all` that a new object may have all of it, `defaults_status` that a status which nobody wrote has the default
    of its schema, as in custom resources.
    A write to a subresource changes no metadata but that in `fields`, and managedFields.
    """

    name: str
    fields: tuple[FieldPath, ...] = ()
    resets: tuple[FieldPath, ...] = ()
    counts: bool = True
    defaults_status: bool = False
    takes_all: bool = False

    def confine(self, new: Tree, live: Tree) -> Tree:
        """`new` with all but this part as in `live`. Changes `new`; the result may share values with `live`."""
        if self.fields:
            sent, new = new, {**live, "metadata": _metadata(new["metadata"], live["metadata"])}
            for path in self.fields:
                _copy(path, sent, new)
        for path in self.resets:
            _copy(path, live, new)
        return new

    def clear(self, new: Tree, default: Callable[[Tree], None]) -> None:
        """Remove from a new object what this part may not set; `default` sets the defaults of such fields again.

        Else there is no status at all before it is written.
        """
        if self.takes_all:
            return
        for path in self.resets:
            _copy(path, _NOTHING, new)
        if self.defaults_status:
            default(new)
        elif self.resets and self.resets != _ONLY_STATUS:
            default(new)
            if _ONLY_STATUS[0] in self.resets:
                new.pop(STATUS, None)


Parts = Mapping[str, ObjectPart]
"""The parts of a version by subresource; that of the object itself is at ``""``."""

_NOTHING: Tree = {}

_ONLY_STATUS: Final = ((STATUS,),)


def field_filters(definition: ResourceDefinition) -> dict[str, Filter]:
    """By subresource: which fields a write to it may own in managedFields."""
    fields: dict[str, dict[FieldPath, None]] = {}
    resets: dict[str, dict[FieldPath, None]] = {}
    for parts in parts_of(definition).values():
        for name, part in parts.items():
            if part.fields or part.resets:
                fields.setdefault(name, {}).update(dict.fromkeys(part.fields))
                resets.setdefault(name, {}).update(dict.fromkeys(part.resets))
    return {name: _filter(fields[name], resets[name]) for name in fields if name != "scale"}


def _filter(fields: Iterable[FieldPath], resets: Iterable[FieldPath]) -> Filter:
    owned, reset = ([tuple(f"f:{name}" for name in path) for path in paths] for paths in (fields, resets))
    keep, drop = including(*owned), excluding(make(reset))
    if not owned:
        return drop
    return keep if not reset else lambda given: drop(keep(given))


def parts_of(definition: ResourceDefinition) -> dict[str, Parts]:
    """The parts of each version."""
    return {version.name: _parts(version, typed=definition.typed) for version in definition.versions}


def _parts(version: VersionDefinition, *, typed: bool) -> Parts:
    fields: dict[str, tuple[FieldPath, ...]] = {}
    uncounted: set[str] = set()
    if version.status:
        fields[STATUS] = ((STATUS,), *(("metadata", name) for name in version.status_metadata))
    private: list[FieldPath] = [(STATUS,)] if version.status else []
    for subresource in version.subresources:
        if subresource.fields:
            fields[subresource.name] = tuple(tuple(path.split(".")) for path in subresource.fields)
            if not subresource.counts:
                uncounted.add(subresource.name)
            private += () if subresource.shared else fields[subresource.name]
    status = (version.schema.get("properties") or {}).get(STATUS) or {}
    defaults_status = version.status and not typed and status.get("default") is not None
    taken = version.status_at_creation
    main = ObjectPart("", (), _outermost(private), defaults_status=defaults_status, takes_all=taken)
    parts = {"": main}
    for name, own in fields.items():
        inside = [path for path in private if path not in own and any(_is_below(path, outer) for outer in own)]
        counts = name not in uncounted and not (version.status and all(path[0] in (STATUS, "metadata") for path in own))
        parts[name] = ObjectPart(name, own, _outermost(inside), counts)
    if version.scale is not None:
        parts["scale"] = ObjectPart("scale", main.fields, main.resets)
    return parts


def _outermost(paths: list[FieldPath]) -> tuple[FieldPath, ...]:
    """The paths that aren't below others, each once."""
    return tuple(dict.fromkeys(path for path in paths if not any(_is_below(path, other) for other in paths)))


def _is_below(path: FieldPath, outer: FieldPath) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _metadata(sent: Tree, live: Tree) -> Tree:
    """The live metadata with the managedFields and the preconditions that were sent."""
    metadata = {**live}
    metadata.pop("resourceVersion", None)
    for name in ("resourceVersion", "managedFields", "uid"):
        if name in sent:
            metadata[name] = sent[name]
    return metadata


def _copy(path: FieldPath, source: Tree, target: Tree) -> None:
    """Set or remove the field in `target` as it is in `source`. Objects on the way are copied, not changed."""
    found: Any = source
    for name in path:
        found = found.get(name, _ABSENT) if type(found) is dict else _ABSENT
    here = target
    for name in path[:-1]:
        below = here.get(name)
        if type(below) is not dict:
            if found is _ABSENT:
                return
            below = {}
        here[name] = here = {**below}
    if found is _ABSENT:
        here.pop(path[-1], None)
    else:
        here[path[-1]] = found
