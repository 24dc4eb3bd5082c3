"""The turn of an initializer: `take_turn` lets a controller complete or refuse an object that waits for it.

See also: `controller`, which has ``initialize``; ``registry.initializing``, the rules of a server.
"""

from __future__ import annotations

from typing import Any

from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import metadata_of
from oarlock.codec import json
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.context import Target
from oarlock.meta.errors import Denied, InvalidObject, NotFound, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind

__all__ = ["take_turn"]

_INCLUDE = (("includeUninitialized", "true"),)


async def take_turn(controller: ControllerBase[Any], key: ObjectKey) -> bool:
    """Call ``initialize`` if it is this controller's turn, and write what came of it.

    Returns whether the object is initialized, and so one to reconcile. Raises what the server refuses with; Conflict
    when another write was faster, after which everything is done again on the newer object.
    """
    client, kind = controller.client, controller.__kind__
    ref = await client.ref(kind)
    where = ref.object(key.name, key.namespace)
    try:
        tree: Tree = await client.request("GET", where, query=_INCLUDE)
    except NotFound:
        return True
    initializers = metadata_of(tree).get("initializers")
    if not initializers:
        return True
    pending = initializers.get("pending") or []
    if initializers.get("result") is not None:
        await client.request("PUT", where, tree)  # which deletes what a server that stopped has left
    elif pending and pending[0].get("name") == controller.__options__.initializer:
        await client.request("PUT", where, await _after_turn(controller, tree, ref))
    return False


async def _after_turn(controller: ControllerBase[Any], tree: Tree, ref: ResourceRef) -> Tree:
    """The object as its initializer leaves it: completed, or refused."""
    made: Tree = json.decode(json.encode(tree))
    opened = None if ref.projection is None else ref.projection.open(made)
    try:
        await controller.initialize(made if opened is None else opened.object)
    except (Denied, FieldError) as error:
        metadata = metadata_of(tree)
        initializers = {**metadata["initializers"], "result": _refusal(error, ref, metadata).status()}
        return {**tree, "metadata": {**metadata, "initializers": initializers}}
    if opened is not None:
        made = opened.result()
    metadata = dict(metadata_of(made))
    rest = metadata_of(tree)["initializers"]["pending"][1:]
    metadata["initializers"] = {"pending": rest}
    if not rest:
        del metadata["initializers"]
    return {**made, "metadata": metadata}


def _refusal(error: Denied | FieldError, ref: ResourceRef, metadata: Tree) -> StatusError:
    """The error with the name of the object."""
    name = metadata.get("name", "")
    if isinstance(error, FieldError):
        return InvalidObject(GroupKind(ref.group, ref.kind), name, [error])
    target = Target("create", ref.group, ref.version, ref.plural, name=name)
    return error.about(target)
