"""Users' typed hooks: what declares them (`subresource`, `action`, …), and the wrappers that let them work on trees.

A typed view is made, the hook runs, and its changes are written back to the tree. A stored object that doesn't fit its
class any more is seen as far as it can be read (`OldObjects`).
Must not know: when hooks run. See also: ``write.recipe``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

from oarlock.client.informers.remote_objects import ObjectLog
from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Conversions, Converter, NoConversion, name_of
from oarlock.registry.hooks.channels import ForwardedPorts
from oarlock.registry.hooks.collection import (
    AnyCollection,
    StoredCollection,
    VirtualCollection,
    for_the_user,
    from_the_user,
    virtual_methods,
)
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.hooks.subresource import DeclaredPart, DeclaredSubresource, check_fields
from oarlock.registry.served import AnyHook, ConnectHook, Hooks, Served, StreamHook, SubresourceHook
from oarlock.registry.workers import on_the_loop
from oarlock.schema.definition import Names, ResourceDefinition, Subresource
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.classes_conversion import ClassConversion
from oarlock.schema.types.declaring import DuplicateError, HookError, KeywordError, foreign_advice
from oarlock.schema.types.definitions import declaration_of, definition_of
from oarlock.schema.types.folding import Session
from oarlock.schema.types.projections import Projection, projection_of
from oarlock.schema.types.representable import unrepresentable
from oarlock.schema.types.resources import Resource, Spoke, declared, version_name
from oarlock.schema.types.views import ViewError, wire

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


Prepare = Callable[[Tree, Tree | None, Context], Tree]
Validate = Callable[[Tree, Tree | None, Context], Iterable[FieldError]]


def collection_hooks(collection: StoredCollection[Any], projection: Projection, hooks: Hooks) -> Hooks:
    """`hooks` with those that the collection overrides."""
    old = OldObjects(projection)
    if type(collection).prepare is not StoredCollection.prepare:
        hooks = replace(hooks, prepare=_changing(collection, "prepare", projection, old))
    if type(collection).validate is not StoredCollection.validate:
        hooks = replace(hooks, validate=_validate(collection, "validate", projection, old))
    if type(collection).mark_deleted is not StoredCollection.mark_deleted:
        hooks = replace(hooks, mark_deleted=_changing(collection, "mark_deleted", projection))
    return hooks


def part_hooks(
    collection: StoredCollection[Any] | VirtualCollection[Any], projection: Projection, hooks: Hooks
) -> dict[str, Hooks]:
    """All hooks of a write to a part, by subresource: `hooks`, those of the object, and then those of the part."""
    old = OldObjects(projection)
    found: dict[str, Hooks] = {}
    for part in type(collection).__parts__.values():
        prepare, validate = hooks.prepare, hooks.validate
        if part.prepare_method:
            prepare = _after(prepare, _changing(collection, part.prepare_method, projection, old))
        if part.validate_method:
            validate = _and(validate, _validate(collection, part.validate_method, projection, old))
        found[part.name] = replace(hooks, prepare=prepare, validate=validate)
    return found


def _after(first: Prepare | None, second: Prepare) -> Prepare:
    if first is None:
        return second
    return lambda new, old, ctx: second(first(new, old, ctx), old, ctx)


def _and(first: Validate | None, second: Validate) -> Validate:
    if first is None:
        return second
    return lambda new, old, ctx: [*first(new, old, ctx), *second(new, old, ctx)]


def _changing(
    collection: Any, method: str, projection: Projection, before: OldObjects | None = None
) -> Callable[..., Tree]:
    """A hook that changes its object in place, on trees: ``(new, ctx)``, or ``(new, old, ctx)`` if it has `before`."""
    hook: Any = getattr(collection, method)
    code = HookCaller(f"{type(collection).__qualname__}.{method}")
    run = partial(on_the_loop, code.run) if before is None else _caller(collection, code)

    def change(new: Tree, *rest: Any) -> Tree:
        session = projection.open(new)
        given = rest if before is None else (before.view(rest[0]), rest[1])
        code.in_place(run(rest[-1], new, hook, session.object, *given))
        made = code.result(session)
        code.same_object(new, made)
        return made

    return change


def _caller(collection: Any, code: HookCaller) -> Callable[..., Any]:
    """`HookCaller.run`, on the event loop: users' code runs there, whatever thread the object is worked on in."""
    return code.run if getattr(collection, "__threadsafe__", False) else partial(on_the_loop, code.run)


def _validate(collection: Any, method: str, projection: Projection, before: OldObjects) -> Validate:
    hook: Any = getattr(collection, method)
    code = HookCaller(f"{type(collection).__qualname__}.{method}")
    run = _caller(collection, code)
    return lambda new, old, ctx: run(ctx, new, code.errors, hook, projection.view(new), before.view(old), ctx)


class HasSubresources(Protocol):
    """An object whose class has methods that serve subresources, as `find_subresources` finds them."""

    __subresources__: ClassVar[tuple[DeclaredSubresource, ...]]


def with_subresources(definition: ResourceDefinition, collection: AnyCollection) -> ResourceDefinition:
    """The definition with the subresources of `collection` in their versions. Raises HookError."""
    found: tuple[DeclaredSubresource, ...] = type(collection).__subresources__
    names = {version.name for version in definition.versions}
    subresources: list[tuple[str, DeclaredSubresource | DeclaredPart, tuple[str, ...]]] = [
        *((hook.attribute, hook, hook.mark.versions) for hook in found),
        *((attribute, part, part.versions) for attribute, part in type(collection).__parts__.items()),
    ]
    for attribute, sub, limited in subresources:
        subject = f"{type(collection).__name__}.{attribute}"
        unknown = set(limited) - names
        if unknown:
            raise HookError(subject, f"there is no version {unknown.pop()!r}", "there are " + ", ".join(sorted(names)))
        if isinstance(sub, DeclaredPart):
            check_fields(subject, sub, definition)

    def of_version(name: str) -> tuple[Subresource, ...]:
        gvk = definition.gvk(name)
        return tuple(sub.definition(gvk) for _, sub, limited in subresources if name in (limited or names))

    versions = tuple(replace(version, subresources=of_version(version.name)) for version in definition.versions)
    return replace(definition, versions=versions)


def subresource_hooks(
    collection: HasSubresources, definition: ResourceDefinition, converter: Converter
) -> dict[str, AnyHook]:
    """The hooks of `collection`'s subresources, by name."""
    hooks: dict[str, AnyHook] = {}
    conversions = Conversions(definition, converter)
    for found in type(collection).__subresources__:
        mark, giving = found.mark, _Giving(found, conversions, isinstance(collection, VirtualCollection))
        method = getattr(collection, found.attribute)
        if mark.end:
            connect = _forward(method, giving) if mark.ports else _connect(method, giving, mark.end)
            hooks[mark.name] = ConnectHook(mark.name, connect, mark.upgrade, mark.numbered, mark.ports, found.arguments)
        elif mark.media_type:
            hooks[mark.name] = StreamHook(mark.name, _stream(method, giving), mark.media_type, found.arguments)
        else:
            about = None if found.body is None else declared(found.body).gvk.group_kind
            code = HookCaller(f"{type(collection).__qualname__}.{found.attribute}", about=about)
            call = _call(method, giving, definition, code)
            hooks[mark.name] = SubresourceHook(mark.name, mark.method, call, found.arguments)
    return hooks


class _Giving:
    """Makes the arguments of a method, by the names of its parameters."""

    def __init__(self, found: DeclaredSubresource, conversions: Conversions, virtual: bool) -> None:
        self.found = found
        self.virtual = virtual
        self.conversions = conversions
        self._parent = OldObjects(projection_of(found.parent)) if found.parent is not None else None

    async def arguments(self, ctx: Context, parent: Tree, given: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments but the body."""
        found = self.found
        arguments = dict(given)
        if "name" in found.parameters:
            arguments["name"] = ctx.target.name
        if "ctx" in found.parameters:
            arguments["ctx"] = ctx
        if "parent" in found.parameters:
            arguments["parent"] = parent
            if self._parent is not None:
                declaration = found.parent.declaration if isinstance(found.parent, Foreign) else declared(found.parent)
                wanted = version_name(declaration, ctx.target.group)
                made = await self.conversions.old(parent, ctx.target.version, wanted)
                arguments["parent"] = self._parent.view(for_the_user(made) if self.virtual else made)
        return arguments


def _call(method: Any, giving: _Giving, definition: ResourceDefinition, code: HookCaller) -> Any:
    found, conversions = giving.found, giving.conversions
    body_lens = projection_of(found.body) if found.body is not None else None
    known = {version.name for version in definition.versions}

    async def call(ctx: Context, parent: Tree, body: Tree | None, given: Mapping[str, Any] | None = None) -> Any:
        arguments = await giving.arguments(ctx, parent, given or {})
        opened = None
        if body_lens is not None:
            opened = body_lens.open(body or {})
            arguments["body"] = opened.object
        answer = await code.wait(ctx, parent, method, **arguments)
        if answer is None:
            return None
        if opened is not None and answer is opened.object:
            return code.result(opened)
        tree = from_the_user(wire(answer))
        declaration = declared(type(answer))
        version = version_name(declaration, definition.group)
        if declaration.kind == definition.names.kind and version in known:
            # an answer of the parent's own kind is in the request version
            (tree,) = await conversions.convert([tree], version, ctx.target.version)
        return tree

    return call


def _connect(method: Any, giving: _Giving, parameter: str) -> Any:
    async def connect(ctx: Context, parent: Tree, end: Any, given: Mapping[str, Any]) -> int | None:
        arguments = await giving.arguments(ctx, parent, given)
        arguments[parameter] = end
        code = await method(**arguments)
        if code is not None and (not isinstance(code, int) or isinstance(code, bool)):
            raise TypeError(f"{giving.found.mark.name} returned {code!r:.100}: it returns an exit code, or nothing")
        return None if code is None else int(code)

    return connect


def _forward(method: Any, giving: _Giving) -> Any:
    """Calls the method for each connection that a client forwards."""

    async def connect(ctx: Context, parent: Tree, ports: ForwardedPorts, given: Mapping[str, Any]) -> None:
        arguments = await giving.arguments(ctx, parent, given)
        await ports.serve(lambda port, pipe: method(**arguments, port=port, pipe=pipe))

    return connect


def _stream(method: Any, giving: _Giving) -> Any:
    async def stream(ctx: Context, parent: Tree, given: Mapping[str, Any]) -> AsyncIterator[bytes]:
        arguments = await giving.arguments(ctx, parent, given)
        pieces = method(**arguments)
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()  # so that the generator's `finally` runs now, not when it is collected

    return stream
