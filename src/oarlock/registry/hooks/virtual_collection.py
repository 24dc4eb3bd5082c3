"""`VirtualCollection`: the base class for a resource whose objects are stored or computed by users' code.

    class Fortunes(VirtualCollection[Fortune]):
        async def get(self, name: str, ctx: Context) -> Fortune | None: ...

A verb is served if its method is written. The server adds selectors, sorting, tables and paging, and PATCH if there are
get and update.
Must not know: trees, URLs. See also: `declare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Never, TypeVar

from oarlock.registry.hooks.class_bodies import WithList
from oarlock.registry.hooks.collection import StoredCollection, resource_of
from oarlock.registry.hooks.methods import Hook, check_methods
from oarlock.registry.hooks.part import DeclaredPart, find_parts
from oarlock.registry.hooks.subresource import MARKER, DeclaredSubresource, find_subresources
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import HookError, refuse_unknown

__all__ = ["VERBS", "AnyCollection", "VirtualCollection"]

T = TypeVar("T")

_DRY = ("dry_run",)

VERBS = {
    "get": Hook(("name", "ctx"), "async"),
    "list": Hook(("ctx",), "async", ("options",)),
    "create": Hook(("new", "ctx"), "async", _DRY),
    "update": Hook(("new", "expected_version", "ctx"), "async", _DRY),
    "delete": Hook(("name", "ctx"), "async", _DRY),
    "watch": Hook(("ctx",), "async generator", ("options",)),
}

_WRONG_GUESSES = {
    "patch": "PATCH is served when there are get and update",
    "deletecollection": "it is served when there are list and delete",
    "validate": "raise errors.InvalidObject in create and update",
    "prepare": "change the object in create and update",
    "default": "default() goes on the Resource or Spoke class, for each version",
}


class VirtualCollection(Generic[T], metaclass=WithList):
    """The methods of one resource that isn't in the store. Write any of these; all see the hub version `T`:

    - ``async def get(self, name: str, ctx: Context) -> T | None``: None answers 404.
    - ``async def list(self, ctx: Context) -> Sequence[T]``, or ``tuple[Sequence[T], str]`` with a resourceVersion. To
      page in your own storage, ``async def list(self, ctx: Context, options: ListOptions) -> Page[T]``.
    - ``async def create(self, new: T, ctx: Context) -> T``: returns the stored object.
    - ``async def update(self, new: T, expected_version: str, ctx: Context) -> T``: `expected_version` is empty for an
      unconditional update; raise `errors.Conflict` when the object has another one. Not called when nothing changes.
    - ``async def delete(self, name: str, ctx: Context) -> T | None``: returns the deleted object.
    - ``async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, T]]``: yields ``("ADDED",
      object)``, ``MODIFIED``, ``DELETED``, after ``options.resource_version``; raise `errors.Expired` when that is too
      old. Without `options` it can't begin at a resourceVersion.

    With get and update, every kind of patch is served, apply too (with create, apply creates). managedFields are the
    text ``new.metadata.field_owners``: store it with the object and return it, or no field has an owner. The namespace
    is ``ctx.target.namespace``, empty for all. Create, update and delete are called for a dry run only if they take a
    ``dry_run: bool``. `of` is the `Foreign` of a type that isn't a Resource.
    """

    __resource__: ClassVar[Any] = None
    __stored_as__: ClassVar[Any] = None
    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]] = ()
    __parts__: ClassVar[Mapping[str, DeclaredPart]] = {}

    def __init_subclass__(cls, *, of: Foreign[Any] | None = None, **unknown: Never) -> None:
        super().__init_subclass__()
        refuse_unknown(cls, unknown, VirtualCollection)
        cls.__resource__ = resource_of(cls, VirtualCollection, of)
        check_methods(cls, VERBS, _WRONG_GUESSES, MARKER)
        cls.__subresources__ = find_subresources(cls)
        cls.__parts__ = find_parts(cls, cls.__subresources__)
        if cls.__resource__ is not None and not any(hasattr(cls, verb) for verb in VERBS):
            raise HookError(f"class {cls.__name__}", "serves no verb", "write one of " + ", ".join(VERBS))
        for attribute in cls.__parts__:
            if not (hasattr(cls, "get") and hasattr(cls, "update")):
                raise HookError(f"{cls.__name__}.{attribute}", "a part is read and written", "write get and update")


AnyCollection = StoredCollection[Any] | VirtualCollection[Any]
"""A user's collection for one resource."""
