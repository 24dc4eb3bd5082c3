"""Turns a parsed request body into a typed, pruned and defaulted tree of the request version.

Error messages depend on the verb, which passes a `Wording`.
Must not know: bytes, media types. See also: `create` and `update`, which call `normalize_body` on every tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple, Protocol

from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, StatusError
from oarlock.meta.fielderrors import FieldError, Undecodable
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.registry.served import Hooks
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.types.views import ViewError

__all__ = ["YAML_ERRORS", "BodyWording", "DecodedBody", "Wording", "compile_bodies", "normalize_body"]


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


@dataclass(slots=True)
class DecodedBody:
    """A tree that the recipe may change, and the problems that strict decoding of its bytes found.

    `in_order` puts the paths of unknown fields among the problems, if they don't simply follow. `derived` is True when
    the tree is the result of a patch or of mutating admission, not what a client sent. `offload_bytes` is that of the
    bytes it was decoded from (see `workers.offload_bytes`).
    """

    tree: Tree
    wording: Wording
    problems: list[str] = field(default_factory=list)
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
