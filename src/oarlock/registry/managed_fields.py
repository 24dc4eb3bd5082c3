"""The step of every write that records who owns which field.

It stands between the settled tree and mutating admission, with the live and the new object in the request
version. Field ownership isn't tracked yet: what a client sends in managedFields is kept as it is.
"""

from __future__ import annotations

from oarlock.meta.context import Context
from oarlock.registry.served import Tree

__all__ = ["track"]


def track(live: Tree | None, new: Tree, ctx: Context) -> Tree:
    """Return `new` with its managedFields brought up to date."""
    return new
