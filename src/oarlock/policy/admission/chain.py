"""`AdmissionChain`: the admission plugins of a server, in order; implements ``registry.gate.Gate``.

All interested plugins mutate, in order, and once more if policies or webhooks have changed the object; when it is
final, all validate; when nobody refuses it, those that take something for it do.
Must not know: what a plugin is interested in; authorization, which is passed in as a function. See also: `typed`, for
the plugins that users write as classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.counts import AdmissionCounts, TimedStep
from oarlock.registry.served import Claims
from oarlock.registry.workers import Offload, ensure_task
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub


class ValidatingPlugin:
    """An ``AdmissionPlugin`` that changes nothing. A subclass has `handles`, and a `validate` that may refuse."""

    waits = True
    mutates = False

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        """The object as it is."""
        return new


K = TypeVar("K", bound=Hashable)


class Mutating(Protocol):
    """The mutation of one request by one plugin. The plugin may be called twice."""

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload, *, again: bool) -> Tree | None:
        """As ``AdmissionPlugin.mutate``. In the second call `again` is true, and `new` has all plugins' changes."""
        ...


class ReinvokedPlugin(ABC):
    """A base class of plugins that keep something between their two calls for a request."""

    @abstractmethod
    def mutating(self, request: AdmissionRequest, offload: Offload) -> Mutating:
        """What mutates the object of a request."""

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        """Mutate once, where no chain asks again."""
        return await self.mutating(request, offload).mutate(new, old, offload, again=False)


class Reinvocable(Generic[K]):
    """The results of a plugin's calls for one request, by keys, and which of them must be repeated."""

    def __init__(self) -> None:
        self._before: set[K] = set()
        self._again: set[K] = set()
        self._output: Tree | None = None

    def begin(self, new: Tree | None, *, again: bool) -> None:
        """The plugin is asked; what others have made since the last time counts."""
        if again and new is not self._output and new != self._output:
            self.changed()

    def due(self, key: K, *, again: bool) -> bool:
        """Whether `key` must be called now."""
        return not again or key in self._again

    def asked(self, key: K) -> None:
        """`key` was called, and must be called again after later changes."""
        self._before.add(key)

    def changed(self) -> None:
        """The object was changed, so every key that was called before must be called again."""
        self._again |= self._before
        self._before.clear()

    def end(self, new: Tree | None) -> None:
        """The plugin has been asked."""
        self._output = new


class ReservingPlugin(ValidatingPlugin, ABC):
    """An ``AdmissionPlugin`` that allocates, after all other plugins have accepted. It doesn't change objects."""

    @abstractmethod
    def handles(self, request: AdmissionRequest) -> bool:
        """Whether it allocates something for objects of this request."""

    @abstractmethod
    async def reserve(self, request: AdmissionRequest, new: Tree, old: Tree | None, claims: Claims) -> None:
        """Allocate what the object needs, and register it in `claims`. Raises `errors.StatusError` to refuse."""

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        """Allow the request. Only `reserve` refuses."""


May = Callable[[Context, str], Awaitable[None]]

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

OTHER_KIND = ""
"""A kind that no plugin names."""

ANY_KIND = "*"
"""The kind of a subresource's body, which any plugin may be about."""


class AdmissionPlugin(Protocol):
    """A plugin of the admission chain. It works on trees in the request version.

    A plugin may have the attributes ``only_kinds`` and ``only_operations``: it is called for objects of these kinds,
    and for these operations only; ``only_updates_of`` names the kinds whose updates it is called for. They never
    change, so other writes don't even call `handles`. One with a false ``mutates`` isn't asked to mutate. All other
    attributes may change while the server runs, and take effect for the next request.
    """

    @property
    def waits(self) -> bool:
        """Whether `mutate` or `validate` may wait; they then run in a task."""
        ...

    def handles(self, request: AdmissionRequest) -> bool:
        """Whether the plugin is called for this request.

        Called once for every write that ``only_kinds`` and ``only_operations`` don't exclude. It uses data in memory
        only, and neither waits nor raises. Conditions on the objects (label selectors, match conditions) belong in
        `mutate` and `validate`.
        """
        ...

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        """Mutating admission. Returns `new`, or another tree to replace it. Don't change `new` itself.

        `new` is None for DELETE and CONNECT, `old` for CREATE and CONNECT. Called for each attempt of a write, again
        after a conflict. Raises `errors.StatusError` to refuse the request.
        """
        ...

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub
    ) -> None:
        """Validating admission of the final object. Changes nothing. Raises `errors.StatusError` to refuse the request.

        `hub` has both objects in the hub version, if the server has them.
        """
        ...


def plugin_name(plugin: object) -> str:
    """The name by which a plugin is disabled, placed and counted: its ``name``, else the name of its class."""
    return str(getattr(plugin, "name", type(plugin).__name__))


class _Concerned(NamedTuple):
    """The plugins that an operation on objects of a kind may concern: those to ask, and those that reserve."""

    asked: tuple[AdmissionPlugin, ...]
    reserving: tuple[ReservingPlugin, ...]


def _only_kinds(plugin: object, operation: str) -> Collection[str] | None:
    only: Collection[str] | None = getattr(plugin, "only_updates_of", None) if operation == "UPDATE" else None
    if only is None:
        only = getattr(plugin, "only_kinds", None)
    return only


def _concerned(plugins: Iterable[AdmissionPlugin], operation: str, kind: str) -> _Concerned:
    found = [
        plugin
        for plugin in plugins
        if operation in getattr(plugin, "only_operations", OPERATIONS)
        and (kind == ANY_KIND or (only := _only_kinds(plugin, operation)) is None or kind in only)
    ]
    return _Concerned(
        tuple(plugin for plugin in found if not isinstance(plugin, ReservingPlugin)),
        tuple(plugin for plugin in found if isinstance(plugin, ReservingPlugin)),
    )


class AdmissionChain:
    """Asks `plugins`, in order, about every write; `may` checks the permission for another verb.

    How long they take is added to `counts`.
    """

    __slots__ = ("_concerned", "_counts", "_may", "_plugins")

    def __init__(
        self, plugins: Iterable[AdmissionPlugin], may: May | None = None, counts: AdmissionCounts | None = None
    ) -> None:
        self._counts = counts or AdmissionCounts()
        self._may = may
        self.plugins = tuple(plugins)

    @property
    def plugins(self) -> tuple[AdmissionPlugin, ...]:
        """May be replaced while the server runs, with effect from the next request on."""
        return self._plugins

    @plugins.setter
    def plugins(self, plugins: tuple[AdmissionPlugin, ...]) -> None:
        self._plugins = plugins
        kinds = {
            kind for plugin in plugins for operation in OPERATIONS for kind in _only_kinds(plugin, operation) or ()
        }
        self._concerned = {
            (operation, kind): _concerned(plugins, operation, kind)
            for operation in OPERATIONS
            for kind in (*kinds, OTHER_KIND, ANY_KIND)
        }

    def reviewers(self, request: AdmissionRequest) -> _InterestedPlugins | None:
        operation = request.operation
        kind = ANY_KIND if request.body_kind is not None else request.served.definition.names.kind
        concerned = self._concerned.get((operation, kind)) or self._concerned[operation, OTHER_KIND]
        interested: list[AdmissionPlugin] = []
        reserving: list[ReservingPlugin] = []
        for plugin in concerned.asked:
            if plugin.handles(request):
                interested.append(plugin)
        for claimant in concerned.reserving:
            if claimant.handles(request):
                reserving.append(claimant)
        if not interested and not reserving:
            return None
        return _InterestedPlugins(request, interested, reserving, self._counts)

    async def may(self, ctx: Context, verb: str) -> None:
        if self._may is not None:
            await self._may(ctx, verb)


class _MutatingPass(NamedTuple):
    """What both passes over the plugins share: what each that can be configured remembers, and the measured step."""

    plugins: Sequence[AdmissionPlugin]
    turns: Sequence[Mutating | None]
    step: TimedStep
    offload: Offload


class _InterestedPlugins:
    """The plugins of a chain that are interested in `request`."""

    __slots__ = ("_counts", "_plugins", "_request", "_reserving", "reserves")

    def __init__(
        self,
        request: AdmissionRequest,
        plugins: list[AdmissionPlugin],
        reserving: Sequence[ReservingPlugin],
        counts: AdmissionCounts,
    ) -> None:
        self._counts = counts
        self._request = request
        self._plugins = plugins
        self._reserving = reserving
        self.reserves = bool(reserving)

    async def mutate(self, new: Tree | None, old: Tree | None, offload: Offload) -> Tree | None:
        plugins: list[AdmissionPlugin] = []
        for plugin in self._plugins:
            if getattr(plugin, "mutates", True):
                plugins.append(plugin)
        if not plugins:
            return new
        turns = [
            plugin.mutating(self._request, offload) if isinstance(plugin, ReinvokedPlugin) else None
            for plugin in plugins
        ]
        with self._counts.step("admit", self._request.operation) as step:
            mutation = _MutatingPass(plugins, turns, step, offload)
            new, changed = await self._mutate(mutation, new, old, again=False)
            if changed:
                new, _ = await self._mutate(mutation, new, old, again=True)
        return new

    async def _mutate(
        self, mutation: _MutatingPass, new: Tree | None, old: Tree | None, *, again: bool
    ) -> tuple[Tree | None, bool]:
        """The object after all plugins, and whether one that can be configured has changed it."""
        changed = False
        for plugin, turn in zip(mutation.plugins, mutation.turns, strict=True):
            mutation.step.begins(plugin_name(plugin))
            if plugin.waits:
                await ensure_task()
            before = new
            if turn is None:
                new = await plugin.mutate(self._request, new, old, mutation.offload)
            else:
                new = await turn.mutate(new, old, mutation.offload, again=again)
                changed = changed or new is not before
        return new, changed

    async def validate(self, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND) -> None:
        with self._counts.step("validate", self._request.operation) as step:
            for plugin in self._plugins:
                step.begins(plugin_name(plugin))
                if plugin.waits:
                    await ensure_task()
                await plugin.validate(self._request, new, old, offload, hub)

    async def reserve(self, new: Tree, old: Tree | None, claims: Claims) -> None:
        with self._counts.step("validate", self._request.operation, whole=False) as step:
            for plugin in self._reserving:
                step.begins(plugin_name(plugin))
                if plugin.waits:
                    await ensure_task()
                await plugin.reserve(self._request, new, old, claims)
