"""`OldObjects`: typed views of stored objects for hooks, even when an object no longer fits its class.

The class may have changed since the object was stored. Then hooks see the part that can be read, the mistake is logged
once, and the write goes on, so that it can repair the object.
Must not know: which hook looks. See also: ``schema.types.partial_view``, which finds what can be read.
"""

from __future__ import annotations

import logging
from typing import Any

from oarlock.client.informers.object_log import ObjectLog
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversion.converter import name_of
from oarlock.schema.types.projections import Projection
from oarlock.schema.types.views import ViewError

__all__ = ["OldObjects", "reasons"]

log = logging.getLogger("oarlock.registry")

SHOWN = 5
"""The most mistakes that are logged for one object."""


class OldObjects:
    """Makes views of stored objects in one version, with `projection`."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._object_log = ObjectLog(log)

    def view(self, tree: Tree | None) -> Any | None:
        """The object, as far as it can be read. None if `tree` is None or nothing can be read."""
        if tree is None:
            return None
        try:
            return self._projection.view(tree)
        except ViewError as error:
            why = f"the stored object doesn't fit its class any more, hooks see what can be read: {reasons(error)}"
            self._object_log.warn(name_of(tree), tree["metadata"].get("resourceVersion"), why)
            return self._projection.partial_view(tree)


def reasons(error: ViewError) -> str:
    """The first few field errors, as one text."""
    texts = [mistake.message for mistake in error.errors[:SHOWN]]
    if len(error.errors) > SHOWN:
        texts.append(f"and {len(error.errors) - SHOWN} more")
    return "; ".join(texts)
