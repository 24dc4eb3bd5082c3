"""`OldObjects`: stored objects as hooks are shown them, also when they no longer fit their class.

The class may have changed since an object was stored. What it can't hold isn't the fault of whoever writes the object
now: hooks see what can be read, it is logged once, and the write goes on, so that it can mend the object.
Must not know: which hook looks. Next: ``schema.salvage``, which says what can be read.
"""

from __future__ import annotations

import logging
from typing import Any

from oarlock.registry.complaints import Complaints
from oarlock.registry.conversion import Tree, name_of
from oarlock.schema.lenses import Lens
from oarlock.schema.views import ViewError

__all__ = ["OldObjects", "reasons"]

log = logging.getLogger("oarlock.registry")

SHOWN = 5
"""So many of an object's mistakes are logged."""


class OldObjects:
    """Looks at stored objects of one version through `lens`."""

    def __init__(self, lens: Lens) -> None:
        self._lens = lens
        self._complaints = Complaints(log)

    def seen(self, tree: Tree | None) -> Any | None:
        """The object, as far as it can be read: None where there is none, or nothing of it can be."""
        if tree is None:
            return None
        try:
            return self._lens.view(tree)
        except ViewError as error:
            why = f"the stored object doesn't fit its class any more, hooks see what can be read: {reasons(error)}"
            self._complaints.tell(name_of(tree), tree["metadata"].get("resourceVersion"), why)
            return self._lens.salvage(tree)


def reasons(error: ViewError) -> str:
    """What is wrong with an object, field by field, no more than a few of them."""
    texts = [one.message for one in error.errors[:SHOWN]]
    if len(error.errors) > SHOWN:
        texts.append(f"and {len(error.errors) - SHOWN} more")
    return "; ".join(texts)
