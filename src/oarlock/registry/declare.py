"""Declared classes and collections → `Served`: `served_from`, the one door from users' classes to the server.

Here typed code is wrapped so that it works on trees: a view is made, the hook runs, its changes are folded
back. All versions of a resource come together, in whatever order they are listed.
Must not know: requests beyond their `Context`. Next: `served`, and `resource`, which brings one to life.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.registry.collection import StoredCollection
from oarlock.registry.conversion import Converter, NoConversion
from oarlock.registry.distinct import check_distinct
from oarlock.registry.foreign_hooks import with_foreign_checks
from oarlock.registry.old_objects import OldObjects
from oarlock.registry.served import Hooks, Served, Tree
from oarlock.registry.subresource_hooks import subresource_hooks, with_subresources
from oarlock.registry.virtual import VirtualCollection
from oarlock.registry.virtual_methods import virtual_methods
from oarlock.schema.classes_conversion import ClassConversion
from oarlock.schema.declaring import DuplicateError, HookError, KeywordError
from oarlock.schema.definitions import definition_of
from oarlock.schema.folding import Session
from oarlock.schema.foreign import Foreign
from oarlock.schema.lenses import Lens, lens_of
from oarlock.schema.resources import Resource, Spoke, declared

__all__ = ["ClassConverter", "served_from"]

Collection = StoredCollection[Any] | VirtualCollection[Any]


class ClassConverter(ClassConversion, Converter):
    """The conversion of classes as a `Converter`, which never waits."""

    waits = False

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return self.convert_now(trees, from_version, to_version)


@dataclass(slots=True)
class _Group:
    """Everything that was listed of one resource."""

    hub: Any
    spokes: list[Any] = field(default_factory=list)
    collection: Collection | None = None


def served_from(items: Sequence[Any]) -> list[Served]:
    """What the server serves when these are listed.

    An item is a `Resource` or `Spoke` class, a collection (the class, or an instance when it takes arguments),
    a `Foreign` or a finished `Served`. A spoke and a collection bring their hub along, a collection its `stored_as`.
    DeclarationError when two of them declare the same thing.
    """
    groups: dict[int, _Group] = {}
    ready: list[Served] = []
    for item in items:
        if isinstance(item, Served):
            ready.append(item)
        else:
            _sort_in(item, groups)
    made = [(_served(group), _place(group.hub)) for group in groups.values()]
    made += [(one, "") for one in ready]
    check_distinct(made)
    return [served for served, _ in made]


def _place(hub: Any) -> str:
    return hub.said.place if isinstance(hub, Foreign) else declared(hub).place


def _sort_in(item: Any, groups: dict[int, _Group]) -> None:
    if isinstance(item, Foreign):
        groups.setdefault(id(item), _Group(item))
    elif isinstance(item, type) and issubclass(item, Resource):
        groups.setdefault(id(item), _Group(item)).hub = declared(item).hub
    elif isinstance(item, type) and issubclass(item, Spoke):
        hub = declared(item).hub
        _add_version(groups.setdefault(id(hub), _Group(hub)), item)
    else:
        collection = _instance(item)
        hub = type(collection).__resource__
        group = groups.setdefault(id(hub), _Group(hub))
        if group.collection is not None:
            what = f"{type(group.collection).__name__} is the collection of this resource already"
            raise DuplicateError(f"class {type(collection).__name__}", what)
        group.collection = collection
        if type(collection).__stored_as__ is not None:
            _add_version(group, type(collection).__stored_as__)


def _add_version(group: _Group, cls: Any) -> None:
    if cls is not group.hub and cls not in group.spokes:
        group.spokes.append(cls)


def _instance(item: Any) -> Collection:
    if isinstance(item, StoredCollection | VirtualCollection):
        return item
    name = getattr(item, "__name__", repr(item))
    if not (isinstance(item, type) and issubclass(item, StoredCollection | VirtualCollection)):
        raise KeywordError(name, "can't be served", "list Resource and Spoke classes, collections, or a Served")
    if item.__resource__ is None:
        raise KeywordError(f"class {name}", "a collection of what?", f"a subclass says so: {name}[YourResource]")
    try:
        inspect.signature(item).bind()
    except TypeError as error:
        raise KeywordError(
            f"class {name}", f"can't be made: {error}", f"list {name}(…) instead of the class"
        ) from error
    made: Collection = item()
    return made


def _served(group: _Group) -> Served:
    collection = group.collection
    stored_as = type(collection).__stored_as__ if collection is not None else None
    definition = definition_of(group.hub, group.spokes, stored_as)
    classes = {definition.hub: group.hub} | {declared(cls).version: cls for cls in group.spokes}
    converter: Converter = NoConversion()
    if group.spokes:
        converter = ClassConverter(group.hub, group.spokes)
    hooks = Hooks(default={version: _default(cls) for version, cls in classes.items() if _has_default(cls)})
    virtual = None
    if collection is not None:
        lens = lens_of(group.hub)
        definition = with_subresources(definition, collection)
        hooks = replace(hooks, subresources=subresource_hooks(collection, definition, converter))
        if isinstance(collection, VirtualCollection):
            virtual = virtual_methods(collection, lens, namespaced=definition.namespaced)
        else:
            old = OldObjects(lens)
            hooks = replace(hooks, prepare=_prepare(collection, lens, old), validate=_validate(collection, lens, old))
    if isinstance(group.hub, Foreign):
        hooks = with_foreign_checks(hooks, group.hub)
    return Served(definition, converter, hooks, virtual)


def _has_default(cls: Any) -> bool:
    return isinstance(cls, type) and cls.default not in (Resource.default, Spoke.default)  # type: ignore[attr-defined]


def _default(cls: Any) -> Any:
    if inspect.iscoroutinefunction(cls.default):
        raise HookError(f"{cls.__name__}.default", "may not wait", "write def default(self)")

    def default(tree: Tree) -> Tree:
        session = Session(tree, cls)
        _in_place(f"{cls.__qualname__}.default", session.object.default())
        return session.result()

    return default


def _in_place(name: str, returned: object) -> None:
    """Hooks that change an object in place return nothing."""
    _not_waiting(name, returned)
    if returned is not None:
        raise TypeError(f"{name} returned {returned!r:.100}: it changes the object in place")


def _not_waiting(name: str, returned: object) -> None:
    """A hook that is decorated isn't seen to be a coroutine function."""
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError(f"{name} returned something to wait for, and it may not wait: Admission may")


def _prepare(collection: StoredCollection[Any], lens: Lens, before: OldObjects) -> Any:
    if type(collection).prepare is StoredCollection.prepare:
        return None

    hook: Any = collection.prepare
    name = f"{type(collection).__qualname__}.prepare"

    def prepare(new: Tree, old: Tree | None, ctx: Context) -> Tree:
        session = lens.open(new)
        _in_place(name, hook(session.object, before.seen(old), ctx))
        return session.result()

    return prepare


def _validate(collection: StoredCollection[Any], lens: Lens, before: OldObjects) -> Any:
    if type(collection).validate is StoredCollection.validate:
        return None

    name = f"{type(collection).__qualname__}.validate"

    def validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        found = collection.validate(lens.view(new), before.seen(old), ctx)
        _not_waiting(name, found)
        for error in found or ():
            if not isinstance(error, FieldError):
                raise TypeError(f"{name} yielded {error!r:.100}: it yields field errors")
            yield error

    return validate
