"""`ReviewedResource`: runs a resource's code on objects that another server keeps, and asks about.

The other server does the rest of a write: it knows the schema, owns the metadata, compares revisions. So an object that
breaks its schema is left to it: it says what is wrong with all of it.
See also: `recipe`, in which the same code is run for objects that are kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import ConversionError, copy_tree
from oarlock.registry.kept_fields import ANNOTATION, keeping_fields
from oarlock.registry.resource_base import ResourceBase
from oarlock.registry.served import Served, Settings
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.recipe import hook_errors, in_hub, prepared
from oarlock.registry.write.write_request import NOT_AT_HAND, Gate, HookedRequest, Hub
from oarlock.schema.types.views import ViewError
from oarlock.schema.validation.objectmeta import validate_object_meta
from oarlock.storage.pacing import Pacer

__all__ = ["ReviewedResource"]

_OURS: Final = ("labels", "annotations", "finalizers", "ownerReferences")
"""What code may change of an object's metadata."""

AT_ONCE = 50
"""After so many converted objects it is looked whether others wait."""


class _BreaksItsSchema(BadRequest):
    """A value has the wrong JSON type."""


class _Wording:
    """The errors of objects that the other server will refuse with texts of its own."""

    def type_errors(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        return _BreaksItsSchema(errors[0].message)

    def strict(self, problems: list[str]) -> StatusError:
        return _BreaksItsSchema("; ".join(problems))


class ReviewedResource(ResourceBase):
    """A resource whose objects are elsewhere, in a place where a conversion is all that is known of another version."""

    @classmethod
    def all_of(cls, resources: Sequence[Served]) -> tuple[Self, ...]:
        """The code of `resources`, which share threads."""
        settings = Settings()
        converters = [keeping_fields(served.definition, served.converter) for served in resources]
        pairs = zip(resources, converters, strict=True)
        return tuple(cls(replace(served, converter=converter), settings) for served, converter in pairs)

    async def close(self) -> None:
        """End the threads."""
        await self.settings.workers.close()

    def request(self, ctx: Context, version: str, gate: Gate, operation: str) -> HookedRequest:
        """What is asked about an object in `version`."""
        return HookedRequest(self, ctx, version, gate, operation)

    async def converted(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in another version; those given must not be used afterwards. Raises ConversionError."""
        pacer, made = Pacer(), list[Tree]()
        for start in range(0, len(trees), AT_ONCE):
            made += await self.served.convert(trees[start : start + AT_ONCE], from_version, to_version)
            await pacer.turn()
        return made

    async def mutated(self, request: HookedRequest, new: Tree | None, old: Tree | None) -> tuple[Tree, Tree] | None:
        """`new` as far as the request may write it, and what `default()`, plugins and `prepare` make of that.

        None where nothing is made: of an object that is deleted, or breaks its schema. Raises what they refuse with.
        """
        reviewers = request.reviewers
        if new is None:
            if reviewers is not None:
                await reviewers.mutate(None, old, request.offload)
            return None
        part = self.parts[request.version][request.ctx.target.subresource]
        before = {**new}
        if old is None:
            part.clear(before, _no_defaults)
        else:
            before = part.confine(before, old)
        made = await self._made(request, before, old)
        if made is None:
            return None
        if old is not None:
            made = part.confine(made, before)
        metadata = {name: value for name, value in before["metadata"].items() if name not in _OURS}
        made["metadata"] = metadata | {name: made["metadata"][name] for name in _OURS if made["metadata"].get(name)}
        return before, made

    async def _made(self, request: HookedRequest, before: Tree, old: Tree | None) -> Tree | None:
        tree, reviewers = await request.offload(copy_tree, before), request.reviewers
        if old is not None and request.version != self.definition.hub:
            _keep_fields(tree["metadata"], old["metadata"])
        body = DecodedBody(tree, _Wording(), derived=True)
        try:
            await request.normalize(body)
            made = body.tree
            if reviewers is not None:
                made = await request.mutated(reviewers, made, old, body)
            if request.hooks.prepare is not None:
                hub = await in_hub(request, made, await self._old_in_hub(request, old))
                made, _ = await prepared(request, made, *hub)
        except _BreaksItsSchema:
            return None
        except (ViewError, ConversionError):
            if await request.offload(request.compiled.validate, body.tree, None):
                return None
            raise
        return made

    async def check(self, request: HookedRequest, new: Tree | None, old: Tree | None) -> None:
        """Raise what `validate` and admission plugins refuse `new` with: InvalidObject with every error of the former.

        Its schema has been checked.
        """
        hub = NOT_AT_HAND
        if new is not None:
            found = self._wrong_name(new)
            if request.hooks.validate is not None:
                hub_new, hub_old = await in_hub(request, new, await self._old_in_hub(request, old))
                hub = Hub(hub_new, hub_old)
                found += await request.offload(hook_errors, request, hub_new, hub_old, found)
            if found:
                raise InvalidObject(self.definition.hub_kind, new["metadata"].get("name", ""), found)
        if request.reviewers is not None:
            await request.reviewers.validate(new, old, request.offload, hub)

    def _wrong_name(self, new: Tree) -> list[FieldError]:
        """What is wrong with a name by the definition's own rule; every other server knows the usual one."""
        rule = self.definition.name_rule
        if rule in ("dns-subdomain", "none"):
            return []
        found = validate_object_meta(new["metadata"], namespaced=self.definition.namespaced, name_rule=rule)
        return [error for error in found if error.path == "metadata.name"]

    async def _old_in_hub(self, request: HookedRequest, old: Tree | None) -> Tree | None:
        if old is None or request.version == self.definition.hub:
            return old
        return await self.served.conversions.old(old, request.version, self.definition.hub)


def _no_defaults(tree: Tree) -> None:
    """Set no defaults: the schema's are set later."""


def _keep_fields(new: Tree, old: Tree) -> None:
    """Let an object carry along what the live one does, whatever its client knows of it."""
    kept = (old.get("annotations") or {}).get(ANNOTATION)
    annotations = {key: value for key, value in (new.get("annotations") or {}).items() if key != ANNOTATION}
    if kept is not None:
        annotations[ANNOTATION] = kept
    if annotations:
        new["annotations"] = annotations
    else:
        new.pop("annotations", None)
