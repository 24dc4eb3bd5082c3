"""`StoredCollection`: the base class of users' hooks for a resource in the store.

    class Flunders(StoredCollection[Flunder], stored_as=v1alpha1.Flunder):
        def validate(self, new: Flunder, old: Flunder | None, ctx: Context) -> Iterator[FieldError]: ...

Hooks are synchronous, because they may do no I/O; an `Admission` plugin may be asynchronous.
Must not know: trees, URLs. See also: `virtual` for storage of your own, `declare`, which turns a collection into a
`Served`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Never, TypeVar

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.hooks.methods import Hook, check_methods
from oarlock.registry.hooks.part import DeclaredPart, find_parts
from oarlock.registry.hooks.subresource import MARKER, DeclaredSubresource, find_subresources
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import KeywordError, refuse_unknown, type_argument
from oarlock.schema.types.resources import Resource, declared

__all__ = ["StoredCollection", "resource_of"]

T = TypeVar("T")

_HOOKS = {
    "prepare": Hook(("new", "old", "ctx"), "plain"),
    "validate": Hook(("new", "old", "ctx"), "plain"),
    "mark_deleted": Hook(("new", "ctx"), "plain"),
}

_VERBS = "a StoredCollection is stored, its verbs are served as they are; a VirtualCollection has its own"
_WRONG_GUESSES = {
    **dict.fromkeys(("get", "list", "create", "update", "patch", "delete", "watch"), _VERBS),
    "default": "default() goes on the Resource or Spoke class, for each version",
    "mutate": "mutate() goes on an Admission; prepare() changes objects here",
    "convert": "to_hub() and from_hub() of a Spoke convert",
}


def resource_of(cls: type, base: type, of: Foreign[Any] | None) -> Any:
    """The hub class of a collection, or its `Foreign`; None for a generic base class of users' own."""
    argument = type_argument(cls, base)
    if isinstance(argument, TypeVar):
        return None
    subject = f"class {cls.__name__}"
    if argument is None:
        raise KeywordError(
            subject, "a collection of what?", f"write class {cls.__name__}({base.__name__}[YourResource])"
        )
    if of is not None:
        return of
    if not (isinstance(argument, type) and issubclass(argument, Resource) and argument is not Resource):
        raise KeywordError(
            subject,
            f"{argument!r} isn't a Resource class",
            "write the hub class itself, or of=Foreign(…) beside a foreign type",
        )
    declared(argument)
    return argument


class StoredCollection(Generic[T]):
    """Hooks for one stored resource; all are optional.

    Hooks see the hub version `T`. They may run more than once for one request (a write that met a conflict is retried),
    so they must not remember anything between calls. `stored_as` is the storage version, by default the hub. If the
    storage version can't represent every field of the hub, `loses` must name the fields that are lost, by their paths
    in the hub (``["spec.note"]``). `of` is the `Foreign` of a type that isn't a Resource.
    """

    __resource__: ClassVar[Any] = None
    __stored_as__: ClassVar[Any] = None
    __loses__: ClassVar[tuple[str, ...]] = ()
    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]] = ()
    __parts__: ClassVar[Mapping[str, DeclaredPart]] = {}
    __threadsafe__: ClassVar[bool] = False
    """Whether `prepare` and `validate` touch nothing but their arguments, so that a large object's run in a thread."""

    def __init_subclass__(
        cls,
        *,
        stored_as: type | None = None,
        loses: Sequence[str] = (),
        of: Foreign[Any] | None = None,
        **unknown: Never,
    ) -> None:
        super().__init_subclass__()
        refuse_unknown(cls, unknown, StoredCollection)
        cls.__resource__ = resource_of(cls, StoredCollection, of)
        cls.__stored_as__ = stored_as
        if isinstance(loses, str) or (loses and stored_as is None):
            advice = 'write stored_as=YourSpoke, loses=["spec.field"]'
            raise KeywordError(f"class {cls.__name__}", f"loses={loses!r} says nothing", advice)
        cls.__loses__ = tuple(loses)
        check_methods(cls, _HOOKS, _WRONG_GUESSES, MARKER)
        cls.__subresources__ = find_subresources(cls)
        cls.__parts__ = find_parts(cls, cls.__subresources__)
        if stored_as is not None and cls.__resource__ is not None and declared(stored_as).hub is not cls.__resource__:
            hub = cls.__resource__.__name__
            raise KeywordError(
                f"class {cls.__name__}",
                f"stored_as={stored_as.__name__} is no version of {hub}",
                f"{hub} or a Spoke[{hub}]",
            )

    def prepare(self, new: T, old: T | None, ctx: Context) -> None:
        """Change `new` in place before it is validated. `old` is None on create and must not be changed.

        Runs after mutating admission, on create and on every update. Synchronous.
        """

    def validate(self, new: T, old: T | None, ctx: Context) -> Iterable[FieldError]:
        """Yield a `FieldError` for every mistake in `new`, with its field path in the hub version; change nothing.

        Runs in addition to schema validation, on create and on every update. Synchronous.
        """
        return ()

    def mark_deleted(self, new: T, ctx: Context) -> None:
        """Change `new` in place when a DELETE finds finalizers, and the object stays for them, marked as deleted.

        Runs once, with the deletionTimestamp set. Synchronous.
        """
