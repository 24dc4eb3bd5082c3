"""`served_from`: turns declared classes and collections into `Served`, for the server.

Typed hooks are wrapped here so that they work on trees: a typed view is made, the hook runs, and its changes are
written back to the tree. Versions of a resource may be listed in any order.
Must not know: requests beyond their `Context`. See also: `served`, and `stored.resource`, which serves one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter, NoConversion
from oarlock.registry.hooks.collection import AnyCollection, StoredCollection, VirtualCollection, virtual_methods
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.object_hooks import collection_hooks, part_hooks, subresource_hooks, with_subresources
from oarlock.registry.served import Hooks, Served
from oarlock.schema.definition import Names
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.classes_conversion import ClassConversion
from oarlock.schema.types.declaring import DuplicateError, HookError, KeywordError, foreign_advice
from oarlock.schema.types.definitions import declaration_of, definition_of
from oarlock.schema.types.folding import Session
from oarlock.schema.types.projections import projection_of
from oarlock.schema.types.representable import unrepresentable
from oarlock.schema.types.resources import Resource, Spoke, declared

_OTHER_VERSIONS = (
    "another version is a Spoke[…] of the Resource class, or a .spoke(…) of the Foreign; another kind has another "
    "plural= and kind="
)


def _with_foreign_checks(hooks: Hooks, hub: Foreign[Any], spokes: Sequence[Foreign[Any]]) -> Hooks:
    """The user's hooks, preceded by those of the types themselves."""
    validate = hooks.validate

    def checked(new: Tree, old: Tree | None, ctx: Context) -> Iterable[FieldError]:
        hub.check(new, old)
        return () if validate is None else validate(new, old, ctx)

    settling = {foreign.declaration.version: _settling(foreign) for foreign in (hub, *spokes)}
    return replace(hooks, default=settling, validate=checked)


def _settling(foreign: Foreign[Any]) -> Callable[[Tree, Context], Tree]:
    """What a type makes of an object of its version, and its `default`."""
    fill = foreign.default
    code = HookCaller(f"{foreign.declaration.kind}.default")

    def settled(tree: Tree, ctx: Context) -> Tree:
        if fill is None:
            return foreign.settled(tree)
        return foreign.settled(tree, lambda model: code.in_place(code.run(ctx, tree, fill, model)))

    return settled


def _check_distinct(declared: Iterable[tuple[Served, str]]) -> None:
    """Raise DuplicateError for the first name that is taken. The text with each resource is its ``file:line`` or ""."""
    kinds: set[tuple[str, str]] = set()
    taken: dict[tuple[str, str], tuple[int, str]] = {}
    for at, (served, place) in enumerate(declared):
        definition = served.definition
        group, names = definition.group, definition.names
        subject = str(definition.group_resource)
        if (group, names.kind) in kinds:
            what = f"two declarations of the kind {names.kind!r}"
            raise DuplicateError(subject, what, _OTHER_VERSIONS, place)
        kinds.add((group, names.kind))
        for keyword, name in _names_of(names):
            other, of_other = taken.setdefault((group, name), (at, f"{keyword} of {names.kind}"))
            if other != at:
                what = f"its {keyword} {name!r} is taken: it is the {of_other}"
                raise DuplicateError(subject, what, "names are looked up in one table: choose another", place)


def _names_of(names: Names) -> Iterator[tuple[str, str]]:
    """Every name that clients may use for the resource, with what kind of name it is."""
    yield "plural", names.plural
    yield "singular", names.singular
    yield "kind", names.kind.lower()
    for name in names.short_names:
        yield "short name", name


class ClassConverter(ClassConversion, Converter):
    """The `Converter` for declared classes; it never waits."""

    waits = False

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return self.convert_now(trees, from_version, to_version)


@dataclass(slots=True)
class _Group:
    """All that was listed for one resource."""

    hub: Any
    spokes: list[Any] = field(default_factory=list)
    collection: AnyCollection | None = None


def served_from(items: Sequence[Any]) -> list[Served]:
    """The resources to serve, for these declarations.

    An item is a `Resource` or `Spoke` class, a collection (the class, or an instance if its constructor takes
    arguments), a `Foreign` or a `Served`. A spoke or a collection adds its hub, a collection also its `stored_as`.
    Raises DeclarationError, for example if two items declare the same resource.
    """
    groups: dict[int, _Group] = {}
    ready: list[Served] = []
    listed: set[int] = set()
    for item in items:
        if id(item) in listed:
            raise DuplicateError(getattr(item, "__name__", type(item).__name__), "is listed twice", "once is enough")
        listed.add(id(item))
        if isinstance(item, Served):
            ready.append(item)
        else:
            _sort_in(item, groups)
    made = [(served, _place(group.hub)) for group in groups.values() for served in _of_each_api_group(group)]
    made += [(hook, "") for hook in ready]
    _check_distinct(made)
    return [served for served, _ in made]


def _place(hub: Any) -> str:
    return declaration_of(hub).place


def _sort_in(item: Any, groups: dict[int, _Group]) -> None:
    if isinstance(item, Foreign) and item.hub is not None:
        _add_version(groups.setdefault(id(item.hub), _Group(item.hub)), item)
    elif isinstance(item, Foreign):
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


def _instance(item: Any) -> AnyCollection:
    if isinstance(item, StoredCollection | VirtualCollection):
        return item
    name = getattr(item, "__name__", repr(item))
    if not (isinstance(item, type) and issubclass(item, StoredCollection | VirtualCollection)):
        known = "list Resource and Spoke classes, collections, or a Served"
        raise KeywordError(name, "can't be served", foreign_advice(item, known))
    if item.__resource__ is None:
        raise KeywordError(f"class {name}", "a collection of what?", f"a subclass says so: {name}[YourResource]")
    try:
        if item.__init__ is not object.__init__:
            inspect.signature(item).bind()
    except TypeError as error:
        raise KeywordError(
            f"class {name}", f"can't be made: {error}", f"list {name}(…) instead of the class"
        ) from error
    made: AnyCollection = item()
    return made


def _of_each_api_group(group: _Group) -> list[Served]:
    """One for each API group that has a version: the same objects, at the same keys, with the same hooks."""
    groups = dict.fromkeys(declaration_of(cls).group for cls in (group.hub, *group.spokes))
    return [_served(group, name) for name in groups]


def _served(group: _Group, api_group: str) -> Served:
    collection = group.collection
    stored_as = type(collection).__stored_as__ if collection is not None else None
    definition = definition_of(group.hub, group.spokes, stored_as, api_group)
    classes = {definition.hub: group.hub}
    converter: Converter = NoConversion()
    if group.spokes:
        converter = ClassConverter(group.hub, group.spokes, api_group)
        classes = converter.classes
        if stored_as not in (None, group.hub):
            _check_loss(type(collection), converter, group.hub, definition.stored_as)
    hooks = Hooks(default={version: _default(cls) for version, cls in classes.items() if _has_default(cls)})
    virtual, projection = None, projection_of(group.hub)
    if collection is not None:
        definition = with_subresources(definition, collection)
        hooks = replace(hooks, subresources=subresource_hooks(collection, definition, converter))
        if isinstance(collection, VirtualCollection):
            nameless = definition.name_rule == "none"
            if definition.initializers:
                why = "objects of a virtual collection can't wait for initializers"
                raise KeywordError(f"class {type(collection).__name__}", why, "create() may wait itself")
            virtual = virtual_methods(collection, projection, namespaced=definition.namespaced, nameless=nameless)
        else:
            hooks = collection_hooks(collection, projection, hooks)
    if isinstance(group.hub, Foreign):
        hooks = _with_foreign_checks(hooks, group.hub, group.spokes)
    hooks = replace(hooks, threadsafe=True)
    if collection is not None and type(collection).__parts__:
        hooks = replace(hooks, parts=part_hooks(collection, projection, hooks))
    return Served(definition, converter, hooks, virtual, projection)


def _check_loss(collection: Any, converter: ClassConverter, hub: type, version: str) -> None:
    """Check that `loses` names every field that the storage version can't represent."""
    stored_as = collection.__stored_as__
    loses = collection.__loses__
    lost = unrepresentable(converter, hub, version, loses)
    if lost:
        raise KeywordError(
            f"class {collection.__name__}",
            f"stored_as={stored_as.__name__} can't say {', '.join(lost)}, which every write would lose",
            f"store another version, or keep it in an annotation; or say that you know: loses={[*loses, *lost]!r}",
        )


def _has_default(cls: Any) -> bool:
    return isinstance(cls, type) and cls.default not in (Resource.default, Spoke.default)  # type: ignore[attr-defined]


def _default(cls: Any) -> Any:
    if inspect.iscoroutinefunction(cls.default):
        raise HookError(f"{cls.__name__}.default", "may not wait", "write def default(self)")
    try:
        inspect.signature(cls.default).bind(None)
    except TypeError:
        what = "has other parameters than the server gives it"
        raise HookError(f"{cls.__name__}.default", what, "write def default(self)") from None

    code = HookCaller(f"{cls.__qualname__}.default")

    def default(tree: Tree, ctx: Context) -> Tree:
        session = Session(tree, cls)
        code.in_place(code.run(ctx, tree, session.object.default))
        made = code.result(session)
        code.same_object(tree, made)
        return made

    return default
