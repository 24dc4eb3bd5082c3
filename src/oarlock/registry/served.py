"""`Served`: a definition with what only code can say. The one value that holds callables.

Ways to declare a resource (``collection``, a CRD-like dict) end in a `Served`; the recipes of this
package and ``endpoints`` take nothing else. Everything here works on trees (plain dicts); typed views
are made and folded back by ``collection`` before a callable gets in here.
Must not know: URLs, media types, users' classes. Next: `stored_resource`, which brings a Served to life.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.channels import Channels, Pipe
from oarlock.registry.conversion import Converter, NoConversion, Tree
from oarlock.registry.converting import Conversions
from oarlock.registry.pages import Page
from oarlock.registry.parameters import Argument
from oarlock.registry.workers import Aside
from oarlock.schema.definition import ResourceDefinition

__all__ = [
    "NOT_AT_HAND",
    "AnyHook",
    "ConnectHook",
    "Gate",
    "Hooks",
    "Hub",
    "Served",
    "StreamHook",
    "SubresourceCall",
    "SubresourceHook",
    "Tree",
    "VirtualMethods",
]

Hub = tuple[Tree | None, Tree | None]
"""The new and the old object in the hub version; None for one that isn't there, or isn't at hand."""

NOT_AT_HAND: Final[Hub] = (None, None)


class Gate(Protocol):
    """What the recipes ask of policy, handed to them with each request; ``policy.admission`` implements it."""

    @property
    def waits(self) -> bool:
        """Could `mutate` or `validate` wait? Then a write is given its task before it begins."""
        ...

    async def mutate(self, ctx: Context, operation: str, new: Tree | None, old: Tree | None) -> Tree | None:
        """Admission may change `new`. Trees are in the request version; `operation` is CREATE, UPDATE or DELETE.

        Runs again when a write lost a race. Raises `errors.StatusError` to refuse.
        """
        ...

    async def validate(
        self, ctx: Context, operation: str, new: Tree | None, old: Tree | None, hub: Hub = NOT_AT_HAND
    ) -> None:
        """Admission looks at the final object, in the request version, and may refuse it. Changes nothing.

        `hub` are both objects in the hub version, where they were made for the resource's own hooks.
        """
        ...

    async def may(self, ctx: Context, verb: str) -> None:
        """The request needs another verb as well (``create`` for a PUT that creates). Raises Forbidden."""
        ...

    def working(self, aside: Aside) -> Gate:
        """The same for an object so large that what surrounds a plugin's own code is done `aside`."""
        ...

    def idle(self, operation: str) -> bool:
        """True when neither `mutate` nor `validate` would look at this operation, so no trees need be made."""
        ...


class SubresourceCall(Protocol):
    """A user's method. `given` is what it gets of the query, by the names of its parameters."""

    def __call__(
        self, ctx: Context, parent: Tree, body: Tree | None, given: Mapping[str, Any] = ..., /
    ) -> Awaitable[Tree | None]: ...


@dataclass(frozen=True, slots=True)
class SubresourceHook:
    """A user's request/response subresource.

    `call(ctx, parent, body, given)` gets the parent in the request version and the decoded, defaulted and validated
    body (None without one), and returns the answer's tree, or None for 204.
    """

    name: str
    method: Literal["GET", "POST", "PUT"]
    call: SubresourceCall
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamHook:
    """A user's subresource that answers GET with a stream: what `stream(ctx, parent, given)` yields, as it comes."""

    name: str
    stream: Callable[[Context, Tree, Mapping[str, Any]], AsyncIterator[bytes]]
    media_type: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectHook:
    """A user's subresource that takes the connection: `connect(ctx, parent, end, given)` talks with the client.

    `end` is a `Pipe` of one of the protocols in `upgrade`, or `Channels` when there are none: those of a terminal, or
    `numbered` channels without meanings. What `connect` returns is an exit code, None and 0 for success.
    """

    name: str
    connect: Callable[[Context, Tree, Channels | Pipe, Mapping[str, Any]], Awaitable[int | None]]
    upgrade: tuple[str, ...] = ()
    numbered: int = 0
    arguments: tuple[Argument, ...] = ()


AnyHook = SubresourceHook | StreamHook | ConnectHook


@dataclass(frozen=True, slots=True)
class Hooks:
    """A user's code for a stored resource, working on trees.

    - `default[version](tree, ctx)`: after the schema's defaults, in that version, pure, in place.
    - `prepare(new, old, ctx)`: in the hub version, may change `new` and returns it; old is None on create.
    - `validate(new, old, ctx)`: in the hub version, changes nothing, yields every error.

    `threadsafe` says that `prepare` and `validate` may be called in a thread, with large objects: they see to it that
    what belongs on the event loop runs there (`workers.on_the_loop`). `default` may always be.
    """

    default: Mapping[str, Callable[[Tree, Context], Tree]] = field(default_factory=dict)
    prepare: Callable[[Tree, Tree | None, Context], Tree] | None = None
    validate: Callable[[Tree, Tree | None, Context], Iterable[FieldError]] | None = None
    subresources: Mapping[str, AnyHook] = field(default_factory=dict)
    threadsafe: bool = False


@dataclass(frozen=True, slots=True)
class VirtualMethods:
    """A user's own storage. A verb is served when its method is there; trees are in the hub version.

    `list` returns a `Page`; it pages by itself when it is among `takes_options`, and is given all otherwise. `watch`
    yields (type, tree), and begins where its options say when it is among them. `takes_dry_run` names the methods that
    accept a dry run; the others aren't called for one.
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
    """A resource as the server serves it: the definition, its conversion and its code.

    `virtual` is None for a resource kept in the store.
    """

    definition: ResourceDefinition
    converter: Converter = field(default_factory=NoConversion)
    hooks: Hooks = field(default_factory=Hooks)
    virtual: VirtualMethods | None = None
    conversions: Conversions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.converter, Converter):
            what = type(self.converter).__qualname__
            raise TypeError(f"{what} converts without saying how: make it a subclass of {Converter.__qualname__}")
        object.__setattr__(self, "conversions", Conversions(self.definition, self.converter))

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        """The trees in another version; those given must not be used afterwards. See `Conversions.convert`."""
        return await self.conversions.convert(trees, from_version, to_version)

    def verbs(self) -> tuple[str, ...]:
        """The verbs clients may use, sorted, as discovery lists them."""
        if self.virtual is None:
            return ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
        v = self.virtual
        have = {verb for verb in ("create", "delete", "get", "list", "update", "watch") if getattr(v, verb) is not None}
        if {"get", "update"} <= have:
            have.add("patch")
        if {"list", "delete"} <= have:
            have.add("deletecollection")
        return tuple(sorted(have))
