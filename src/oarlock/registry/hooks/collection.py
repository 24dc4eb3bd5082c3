"""The base classes of users' collections: `StoredCollection` (hooks of a resource in the store), `VirtualCollection`.

    class Flunders(StoredCollection[Flunder], stored_as=v1alpha1.Flunder):
        def validate(self, new: Flunder, old: Flunder | None, ctx: Context) -> Iterator[FieldError]: ...

A stored collection's hooks are synchronous, because they may do no I/O; an `Admission` plugin may be asynchronous. The
methods of a virtual collection store or compute the objects; a declared class gets managedFields as an opaque text to
keep (`ObjectMeta.field_owners`).
Must not know: URLs. See also: `object_hooks`, which turns a collection into a `Served`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Never, TypeVar

import msgspec

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.methods import Hook, WithList, check_methods
from oarlock.registry.hooks.subresource import MARKER, DeclaredPart, DeclaredSubresource, find_parts, find_subresources
from oarlock.registry.served import VirtualMethods
from oarlock.registry.virtual.pages import Page
from oarlock.registry.workers import aside, is_wide
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import HookError, KeywordError, refuse_unknown, type_argument
from oarlock.schema.types.projections import Open, Projection
from oarlock.schema.types.resources import Resource, declared

_OWNERS = "fieldOwners"
_entries = msgspec.json.Decoder(list[dict[str, Any]]).decode


def for_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: its managedFields become a text."""
    entries = tree["metadata"].pop("managedFields", None)
    if entries:
        tree["metadata"][_OWNERS] = msgspec.json.encode(entries).decode()
    return tree


def from_the_user(tree: Tree) -> Tree:
    """`tree`, changed in place: the text becomes managedFields; a text that can't be read is dropped."""
    text = tree.get("metadata", {}).pop(_OWNERS, None)
    if text:
        try:
            entries = _entries(text)
        except msgspec.MsgspecError:
            entries = []
        if entries:
            tree["metadata"]["managedFields"] = entries
    return tree


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

    Hooks get the hub version `T`. They may run several times for one request, because a write is retried after a
    conflict, so they must keep nothing between calls. They may not wait.

    - `stored_as`: the storage version, by default the hub.
    - `loses`: the fields that the storage version can't represent, by their paths in the hub (``["spec.note"]``).
      Another field that it can't represent raises DeclarationError.
    - `of`: the `Foreign` of a type that isn't a Resource.
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
        """Change `new` in place before it is validated.

        Runs once for each attempt of a create or update, after mutating admission. `old` is the live object, None on
        create; don't change it. Name, namespace and uid may not be changed. Raise a field error or `Denied` to reject
        the request.
        """

    def validate(self, new: T, old: T | None, ctx: Context) -> Iterable[FieldError]:
        """Yield a `FieldError` for every mistake in `new`. Paths are those of the hub version. Change nothing.

        Runs once for each attempt of a create or update, after `prepare`, in addition to schema validation.
        """
        return ()

    def mark_deleted(self, new: T, ctx: Context) -> None:
        """Change `new` in place when a DELETE finds finalizers, so that the object stays, with a deletionTimestamp.

        Runs once, for the DELETE that sets the deletionTimestamp.
        """


_EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


def virtual_methods(
    collection: VirtualCollection[Any], projection: Projection, *, namespaced: bool, nameless: bool = False
) -> VirtualMethods:
    """The collection's methods, on trees in the hub version."""
    adapter = _Adapter(collection, projection, namespaced, nameless)
    have = {verb: getattr(adapter, verb) for verb in VERBS if hasattr(collection, verb)}
    return VirtualMethods(**have, takes_dry_run=adapter.takes_dry_run, takes_options=adapter.takes_options)


class _Adapter:
    def __init__(self, collection: Any, projection: Projection, namespaced: bool, nameless: bool) -> None:
        self._collection = collection
        self._projection = projection
        self._nameless = nameless
        self._namespaced = namespaced
        self._foreign = isinstance(type(collection).__resource__, Foreign)
        name = type(collection).__qualname__
        self._code = {verb: HookCaller(f"{name}.{verb}") for verb in VERBS}
        self.takes_dry_run = self._taking("dry_run")
        self.takes_options = self._taking("options")

    def _taking(self, parameter: str) -> frozenset[str]:
        """The names of the methods that have this parameter."""
        have = {verb: getattr(self._collection, verb, None) for verb in VERBS}
        return frozenset(verb for verb, method in have.items() if method and parameter in _parameters(method))

    def _dry(self, verb: str, dry_run: bool) -> dict[str, Any]:
        return {"dry_run": dry_run} if verb in self.takes_dry_run else {}

    def _wire(self, verb: str, model: Any, namespace: str) -> Tree:
        try:
            tree = self._projection.wire(model)
        except TypeError as error:
            raise TypeError(f"{self._code[verb].name}: {error}") from error
        metadata = tree.setdefault("metadata", {})
        if self._namespaced and namespace and not self._nameless:
            metadata.setdefault("namespace", namespace)
        return self._read(tree)

    def _read(self, tree: Tree) -> Tree:
        """The tree of an object from users' storage, with its managedFields."""
        return tree if self._foreign else from_the_user(tree)

    def _open(self, new: Tree) -> Open:
        """The object to pass to users' storage."""
        return self._projection.open(new if self._foreign else for_the_user(new))

    def _result(self, verb: str, opened: Open, made: Any, ctx: Context) -> Tree:
        if made is opened.object:
            return self._read(self._code[verb].result(opened))
        return self._wire(verb, made, ctx.target.namespace)

    async def get(self, namespace: str, name: str, ctx: Context) -> Tree | None:
        found = await self._code["get"].wait(ctx, None, self._collection.get, name, ctx)
        return None if found is None else self._wire("get", found, namespace)

    def _options(self, verb: str, options: Any) -> dict[str, Any]:
        return {"options": options} if verb in self.takes_options else {}

    async def list(self, namespace: str, ctx: Context, options: ListOptions) -> Page[Tree]:
        own, code = self._collection.list, self._code["list"]
        found: Any = await code.wait(ctx, None, own, ctx, **self._options("list", options))
        if isinstance(found, Page):
            items = [self._wire("list", model, namespace) for model in found.items]
            return replace(found, items=items)
        version = ""
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], str):
            found, version = found
        if not isinstance(found, Iterable):
            raise TypeError(
                f"{code.name} returned {found!r:.100}: it returns objects, a Page, or objects and a version"
            )
        return Page([self._wire("list", model, namespace) for model in found], version)

    async def create(self, new: Tree, ctx: Context, dry_run: bool) -> Tree:
        opened = await aside(self._open, new) if is_wide(new) else self._open(new)
        create, code = self._collection.create, self._code["create"]
        made = await code.wait(ctx, new, create, opened.object, ctx, **self._dry("create", dry_run))
        if is_wide(made):
            return await aside(self._result, "create", opened, made, ctx)
        return self._result("create", opened, made, ctx)

    async def update(self, new: Tree, expected_version: str, ctx: Context, dry_run: bool) -> Tree:
        opened = self._open(new)
        update, code = self._collection.update, self._code["update"]
        made = await code.wait(ctx, new, update, opened.object, expected_version, ctx, **self._dry("update", dry_run))
        return self._result("update", opened, made, ctx)

    async def delete(self, namespace: str, name: str, ctx: Context, dry_run: bool) -> Tree | None:
        delete, code = self._collection.delete, self._code["delete"]
        deleted = await code.wait(ctx, None, delete, name, ctx, **self._dry("delete", dry_run))
        return None if deleted is None else self._wire("delete", deleted, namespace)

    async def watch(self, namespace: str, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Tree]]:
        async for kind, model in self._collection.watch(ctx, **self._options("watch", options)):
            if kind == "BOOKMARK" and isinstance(model, str):
                yield kind, {"metadata": {"resourceVersion": model}}
            elif kind in _EVENTS:
                yield kind, self._wire("watch", model, namespace)
            else:
                name = self._code["watch"].name
                raise TypeError(f"{name} yielded {kind!r:.100}: an event is ADDED, MODIFIED, DELETED or BOOKMARK")


def _parameters(method: Any) -> Any:
    return inspect.signature(method).parameters


_DRY = ("dry_run",)

VERBS = {
    "get": Hook(("name", "ctx"), "async"),
    "list": Hook(("ctx",), "async", ("options",)),
    "create": Hook(("new", "ctx"), "async", _DRY),
    "update": Hook(("new", "expected_version", "ctx"), "async", _DRY),
    "delete": Hook(("name", "ctx"), "async", _DRY),
    "watch": Hook(("ctx",), "async generator", ("options",)),
}

_WRONG_VIRTUAL_GUESSES = {
    "patch": "PATCH is served when there are get and update",
    "deletecollection": "it is served when there are list and delete",
    "validate": "raise errors.InvalidObject in create and update",
    "prepare": "change the object in create and update",
    "default": "default() goes on the Resource or Spoke class, for each version",
}


class VirtualCollection(Generic[T], metaclass=WithList):
    """The methods of one resource that isn't in the store. Each method that is written is a verb that is served.

    All of them get the hub version `T`:

    - ``async def get(self, name: str, ctx: Context) -> T | None``: None is answered with 404.
    - ``async def list(self, ctx: Context) -> Sequence[T]``, or ``tuple[Sequence[T], str]`` with a resourceVersion. A
      storage that pages itself: ``async def list(self, ctx: Context, options: ListOptions) -> Page[T]``.
    - ``async def create(self, new: T, ctx: Context) -> T``: returns the stored object. Raise `errors.AlreadyExists` if
      the name is in use.
    - ``async def update(self, new: T, expected_version: str, ctx: Context) -> T``: returns the stored object.
      `expected_version` is empty for an unconditional update; raise `errors.Conflict` if the object has another
      version. Not called if nothing changes.
    - ``async def delete(self, name: str, ctx: Context) -> T | None``: returns the deleted object.
    - ``async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, T]]``: yields ``("ADDED",
      object)``, ``MODIFIED`` and ``DELETED`` after ``options.resource_version``. Raise `errors.Expired` if that is too
      old. Without `options` it can't start at a resourceVersion.

    With get and update every kind of patch is served, apply included (with create, apply creates objects). The text
    ``new.metadata.field_owners`` holds managedFields: store it with the object and return it, or no field has an owner.
    The namespace is ``ctx.target.namespace``, empty for all. On a dry run, create, update and delete are called only if
    they have a parameter ``dry_run: bool``. `of` is the `Foreign` of a type that isn't a Resource.
    """

    __resource__: ClassVar[Any] = None
    __stored_as__: ClassVar[Any] = None
    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]] = ()
    __parts__: ClassVar[Mapping[str, DeclaredPart]] = {}

    def __init_subclass__(cls, *, of: Foreign[Any] | None = None, **unknown: Never) -> None:
        super().__init_subclass__()
        refuse_unknown(cls, unknown, VirtualCollection)
        cls.__resource__ = resource_of(cls, VirtualCollection, of)
        check_methods(cls, VERBS, _WRONG_VIRTUAL_GUESSES, MARKER)
        cls.__subresources__ = find_subresources(cls)
        cls.__parts__ = find_parts(cls, cls.__subresources__)
        if cls.__resource__ is not None and not any(hasattr(cls, verb) for verb in VERBS):
            raise HookError(f"class {cls.__name__}", "serves no verb", "write one of " + ", ".join(VERBS))
        for attribute in cls.__parts__:
            if not (hasattr(cls, "get") and hasattr(cls, "update")):
                raise HookError(f"{cls.__name__}.{attribute}", "a part is read and written", "write get and update")


AnyCollection = StoredCollection[Any] | VirtualCollection[Any]
"""A user's collection for one resource."""
