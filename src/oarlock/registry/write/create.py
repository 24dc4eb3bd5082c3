"""The recipe of CREATE. See also: `update`; `finish`, the second half of both."""

from __future__ import annotations

from functools import partial

from oarlock.meta.context import Context
from oarlock.registry.read.results import MutationResult
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.finish import finish
from oarlock.registry.write.gate import Gate
from oarlock.registry.write.generated_names import with_generated_name
from oarlock.registry.write.initializing import begin_initializing
from oarlock.registry.write.metadata import check_place, check_unversioned, fill_namespace, fill_new, wipe_system
from oarlock.registry.write.write_request import WritableResource, WriteRequest, tracked

__all__ = ["create"]


async def create(
    resource: WritableResource, ctx: Context, version: str, body: DecodedBody, gate: Gate, *, applied: bool = False
) -> MutationResult:
    """Create the object in `body`. A generateName is turned into a name before admission sees the object.

    `applied` says that server-side apply creates it and has set managedFields already.

    Raises AlreadyExists, InvalidObject, BadRequest, and what admission refuses with.
    """
    write = WriteRequest(resource, ctx, version, gate, "CREATE")
    write.set_offload_bytes(body.offload_bytes)
    await write.normalize(body)
    metadata = body.tree["metadata"]
    if ctx.target.name:  # of the name in the URL it was asked whether the user may create it
        check_place(metadata, ctx.target, namespaced=write.definition.namespaced)
    else:
        fill_namespace(metadata, ctx.target.namespace, namespaced=write.definition.namespaced)
    wipe_system(metadata)
    if write.definition.name_rule == "none":
        body.tree["metadata"] = {name: metadata[name] for name in ("namespace",) if name in metadata}
        return await _question(write, body)
    if not metadata.get("generateName"):
        return await _attempt(write, body, applied)
    attempt = partial(_attempt, write, applied=applied)
    return await with_generated_name(body, ctx, write.definition, resource.settings, attempt)


async def _question(write: WriteRequest, body: DecodedBody) -> MutationResult:
    """The answer to the creation of an object that isn't stored, such as a review."""
    new = body.tree
    if write.reviewers is not None:
        new = await write.mutated(write.reviewers, new, None, body)
    return await write.object_storage.create(write, await finish(write, new, None))


async def _attempt(write: WriteRequest, body: DecodedBody, applied: bool) -> MutationResult:
    try:
        return await _kept(write, body, applied)
    except BaseException as error:
        await write.claims.end(error)
        raise


async def _kept(write: WriteRequest, body: DecodedBody, applied: bool) -> MutationResult:
    resource, ctx, new = write.resource, write.ctx, body.tree
    write.part.clear(new, write.compiled.default)
    if not applied:
        new = await tracked(write, None, new)
    if write.definition.initializers:
        await begin_initializing(write, new)
    if write.reviewers is not None:
        new = await write.mutated(write.reviewers, new, None, body)
    if write.hooks.reserve is not None:
        new = await write.reserved(new, None, body)
    fill_new(new["metadata"], ctx, write.definition, resource.settings.random(16))
    write.part.clear(new, write.compiled.default)  # nor can admission set it
    made = await finish(write, new, None)
    if not ctx.dry_run:
        check_unversioned(made.tree["metadata"])
        if made.hub is not None:
            made.hub["metadata"].pop("resourceVersion", None)
    write.claims.storing = True
    return await write.object_storage.create(write, made)
