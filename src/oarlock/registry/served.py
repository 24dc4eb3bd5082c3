"""`Served`: a resource definition with its code (conversion, hooks, methods): all that is needed to serve it.

Every way to declare a resource (classes, a dict like a CRD) ends in a `Served`, and the recipes and ``endpoints`` take
nothing else. Its callables work on trees (plain dicts); ``object_hooks`` wraps users' typed code. `Claims` is what a
write passes to the hook that reserves something shared; `Settings` are those of all resources.
Must not know: URLs, media types, users' classes. See also: `stored.resource`, which serves one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from msgspec import Struct

from oarlock.meta.context import Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.net.futures import shared
from oarlock.registry.conversions import ConversionCache, Conversions, Converter, NoConversion
from oarlock.registry.hooks.channels import Channels, ForwardedPorts, Pipe
from oarlock.registry.hooks.hook_caller import Argument
from oarlock.registry.read.selection import SelectionMemo
from oarlock.registry.virtual.pages import Page
from oarlock.registry.workers import Workers
from oarlock.schema.definition import ResourceDefinition, RowCells
from oarlock.schema.types.projections import Projection

log = logging.getLogger("oarlock.registry")

_undoing: set[asyncio.Future[None]] = set()
"""What is being given back: the event loop alone wouldn't keep it."""


class Claims(Struct, eq=False):
    """The claims of one write. With `dry_run` nothing is allocated.

    `storing` is true once the write was sent to the store.
    """

    dry_run: bool = False
    storing: bool = False
    _undos: tuple[Callable[[], Awaitable[object]], ...] = ()

    def add(self, undo: Callable[[], Awaitable[object]]) -> None:
        """Register an allocation. `undo` releases it; its exceptions are logged."""
        self._undos += (undo,)

    async def end(self, error: BaseException | None = None) -> None:
        """An attempt has ended without success: with an error, or because another write came first."""
        undos, self._undos = self._undos, ()
        refused = isinstance(error, StatusError) and error.code < 500
        nothing_stored = error is None or refused or not self.storing
        self.storing = False
        if not undos or not nothing_stored:
            return
        undoing = asyncio.ensure_future(_undo(undos))
        _undoing.add(undoing)
        undoing.add_done_callback(_undoing.discard)
        await shared(undoing)


async def _undo(undos: Sequence[Callable[[], Awaitable[object]]]) -> None:
    for undo in reversed(undos):
        try:
            await undo()
        except Exception as error:
            log.warning("what a refused write had taken is given back later: %s", error)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that all resources of a server share.

    `garbage_collection` is ``external`` when a cluster's garbage collector deletes dependents, so that DELETE may add
    its finalizers; ``none`` when there is no garbage collector. `check_command` lists stored objects that don't fit.
    """

    garbage_collection: Literal["external", "none"] = "none"
    check_command: str = "oarlock storage check --schemas SERVER"
    random: Callable[[int], bytes] = os.urandom
    conversion_cache: ConversionCache = field(default_factory=ConversionCache)
    workers: Workers = field(default_factory=Workers)
    selections: SelectionMemo = field(default_factory=SelectionMemo)


class SubresourceCall(Protocol):
    """A call of a user's method. `given` are its query parameters, by name."""

    def __call__(
        self, ctx: Context, parent: Tree, body: Tree | None, given: Mapping[str, Any] = ..., /
    ) -> Awaitable[Tree | None]: ...


_VERBS_OF_CUSTOM = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


@dataclass(frozen=True, slots=True)
class SubresourceHook:
    """A user's request/response subresource.

    `call(ctx, parent, body, given)` gets the parent in the request version, and the decoded, defaulted and validated
    body (None if it takes none). It returns the answer as a tree, or None for 204. `change(parent, body, ctx)`, if
    given, runs before it as an update of the subresource's fields of the parent: it changes `parent` in place, and runs
    again on a newer one after a conflict.
    """

    name: str
    method: Literal["GET", "POST", "PUT"]
    call: SubresourceCall
    arguments: tuple[Argument, ...] = ()
    change: Callable[[Tree, Tree, Context], None] | None = None


@dataclass(frozen=True, slots=True)
class StreamHook:
    """A user's subresource that answers GET with a stream: the items of `stream(ctx, parent, given)`."""

    name: str
    stream: Callable[[Context, Tree, Mapping[str, Any]], AsyncIterator[bytes]]
    media_type: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectHook:
    """A user's subresource that takes over the connection: `connect(ctx, parent, end, given)`.

    `end` is a `Pipe` if `upgrade` lists protocols; else `Channels`: those of a terminal, or `numbered` ones without
    fixed meaning. With `ports` it is a `ForwardedPorts`. `connect` returns an exit code; None and 0 mean success.
    """

    name: str
    connect: Callable[[Context, Tree, Channels | Pipe | ForwardedPorts, Mapping[str, Any]], Awaitable[int | None]]
    upgrade: tuple[str, ...] = ()
    numbered: int = 0
    ports: bool = False
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyHook:
    """A subresource that passes requests on, of every method and with any path behind it.

    `answer` is given the state of the request and the path to ask for, and answers as one that serves a version for
    others does (``endpoints.catalog.Proxied``). Authorization and admission come first.
    """

    name: str
    answer: Callable[[Any, str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ForwardHook:
    """A subresource that passes on requests for one object: `answer(state, parent, given)`.

    `given` are the parameters in the query, by their names. `answer` answers as that of a `ProxyHook` does. With
    `connects` the client needs the right to create, whatever the method is, and admission sees a CONNECT.
    """

    name: str
    answer: Callable[[Any, Tree, Mapping[str, Any]], Awaitable[Any]]
    connects: bool = True


AnyHook = SubresourceHook | StreamHook | ConnectHook | ProxyHook | ForwardHook

Reserve = Callable[[Tree, Tree | None, Claims], Awaitable[Tree]]
"""See `Hooks`."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """A user's hooks for a stored resource, on trees.

    - `default[version](tree, ctx)`: runs after the schema's defaults, in that version. It changes the tree in place,
      and has no side effects.
    - `prepare(new, old, ctx)`: gets the hub version, may change `new`, and returns it. `old` is None on create.
    - `reserve(new, old, claims)`: runs after mutating admission, in the request version. It returns a copy of `new`
      with shared values that it has allocated (an address, a port), and registers them in `claims`. It may wait.
    - `validate(new, old, ctx)`: gets the hub version, changes nothing, and yields every error.
    - `mark_deleted(new, ctx)`: gets the hub version of an object that stays until its finalizers are removed.
    - `rows[version](tree, now)`: the cells of a Table after the name, instead of those of the columns' paths. `now` is
      in seconds since the epoch.
    - `grace_s(tree, requested)`: the seconds between deletion and removal of an object; `requested` is what the DELETE
      has. Without it there is no delay.
    - `parts`: all hooks of a write to a part, by subresource.
    - `threadsafe`: `prepare` and `validate` may be called in a worker thread, for large objects. They run what needs
      the event loop with `workers.on_the_loop`. `default` may always be called in a worker thread.
    """

    default: Mapping[str, Callable[[Tree, Context], Tree]] = field(default_factory=dict)
    prepare: Callable[[Tree, Tree | None, Context], Tree] | None = None
    reserve: Reserve | None = None
    validate: Callable[[Tree, Tree | None, Context], Iterable[FieldError]] | None = None
    mark_deleted: Callable[[Tree, Context], Tree] | None = None
    grace_s: Callable[[Tree, int | None], int] | None = None
    rows: Mapping[str, RowCells] = field(default_factory=dict)
    subresources: Mapping[str, AnyHook] = field(default_factory=dict)
    parts: Mapping[str, Hooks] = field(default_factory=dict)
    threadsafe: bool = False


@dataclass(frozen=True, slots=True)
class VirtualMethods:
    """The methods of a virtual resource. A verb is served if its method is there; trees are in the hub version.

    `list` returns a `Page`. `takes_options` names the methods that are given options: such a `list` pages by itself,
    else the server pages; such a `watch` begins at the given resourceVersion. `watch` yields (event type, tree).
    `takes_dry_run` names the methods that are called for a dry run; the others aren't.
    """

    get: Callable[[str, str, Context], Awaitable[Tree | None]] | None = None
    list: Callable[[str, Context, ListOptions], Awaitable[Page[Tree]]] | None = None
    create: Callable[[Tree, Context, bool], Awaitable[Tree]] | None = None
    update: Callable[[Tree, str, Context, bool], Awaitable[Tree]] | None = None
    delete: Callable[[str, str, Context, bool], Awaitable[Tree | None]] | None = None
    watch: Callable[[str, Context, WatchOptions], AsyncIterator[tuple[str, Tree]]] | None = None
    takes_dry_run: frozenset[str] = frozenset()
    takes_options: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Served:
    """A resource as it is served: its definition, its conversion and its code.

    - `virtual`: the methods of a virtual collection; None for a resource in the store.
    - `projection`: makes typed objects of the hub version; None if there is no class.
    - `only_read`: for objects that others stored in versions that aren't served: by apiVersion, the function that makes
      the stored version of such a tree.
    """

    definition: ResourceDefinition
    converter: Converter = field(default_factory=NoConversion)
    hooks: Hooks = field(default_factory=Hooks)
    virtual: VirtualMethods | None = None
    projection: Projection | None = field(default=None, repr=False, compare=False)
    only_read: Mapping[str, Callable[[Tree], Tree]] = field(default_factory=dict, compare=False)
    conversions: Conversions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if Converter not in type(self.converter).__mro__:
            what = type(self.converter).__qualname__
            raise TypeError(f"{what} converts without saying how: make it a subclass of {Converter.__qualname__}")
        object.__setattr__(self, "conversions", Conversions(self.definition, self.converter, self.only_read))

    @property
    def waits(self) -> bool:
        """Whether a request may run users' asynchronous code: the resource's storage, or a conversion that waits."""
        return self.virtual is not None or self.converter.waits

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in another version; those given must not be used afterwards. See `Conversions.convert`."""
        return await self.conversions.convert(trees, from_version, to_version)

    def verbs(self) -> tuple[str, ...]:
        """The supported verbs, as in discovery: sorted, but for custom resources, for which Kubernetes has an order."""
        if self.virtual is None:
            if not self.definition.typed and self.definition.delete_collection:
                return _VERBS_OF_CUSTOM
            all_at_once = ("deletecollection",) if self.definition.delete_collection else ()
            return ("create", "delete", *all_at_once, "get", "list", "patch", "update", "watch")
        v = self.virtual
        have = {verb for verb in ("create", "delete", "get", "list", "update", "watch") if getattr(v, verb) is not None}
        if {"get", "update"} <= have:
            have.add("patch")
        if {"list", "delete"} <= have and self.definition.delete_collection:
            have.add("deletecollection")
        return tuple(sorted(have))
