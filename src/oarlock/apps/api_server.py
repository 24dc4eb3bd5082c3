"""`APIServer`: everything a server serves, listed in one place.

    server = APIServer(serve=[Flunders, v1alpha1.Flunder], admission=[BanFlunder(fischers)], informers=[fischers])

Making one opens nothing. See also: `description`; ``assembly.run``, which runs it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import Catalog, CatalogItem
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission, AnyPlugin, PlacedPlugin, arranged
from oarlock.policy.authn.authenticator import Authenticator
from oarlock.policy.authz.authorizer import Authorizer
from oarlock.policy.authz.union import Access
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.schema.types.declaring import KeywordError, did_you_mean
from oarlock.schema.types.resources import Resource, declared
from oarlock.server.assembly.own_work import Runnable, ServerHook
from oarlock.server.config import ExtensionConfig, ServerConfig
from oarlock.server.description import ClusterRules, LiveCatalog, RunningServer, ServerDescription, UserCode
from oarlock.server.filters.filter import unchanged
from oarlock.storage.backend import Backend

if TYPE_CHECKING:
    from oarlock.client.client import Client
    from oarlock.client.clock import TimerClock
    from oarlock.meta.context import User
    from oarlock.registry.stored.migration import Progress

log = logging.getLogger("oarlock.server")

DEFAULT_NAME = "oarlock"
"""Of a server that is given none."""


@dataclass(frozen=True, slots=True)
class Prototype:
    """A server without anything of its user's, which makes the same objects in a new store when it starts.

    Those of equal `key` make the same. `make` makes one.
    """

    key: Hashable
    make: Callable[[], APIServer]


class NotServing(RuntimeError):
    """The server isn't running."""


class APIServer(ServerDescription):
    """What to serve.

    - `serve`: `Resource` and `Spoke` classes, collections, `Foreign`s, or `Served` values.
    - `admission`: plugins, called in this order for every write: `Admission` for typed objects, `AdmissionPlugin` for
      trees, `PlacedPlugin` for a plugin with a place of its own.
    - `informers`: those that `admission` or collections read. They have data once the server is ready.
    - `garbage_collection`: ``external`` if a cluster's garbage collector deletes dependents, so that a delete may add
      its finalizers; ``none`` if there is none, and such deletes are refused.
    - `authenticators`: yours, called after those that options configure.
    - `authorizer`: an `Authorizer`. Without one, every authenticated user may do everything.
    - `access`: answers your code whether a user may do something, with the server's authorizer, once the server runs.
    - `admission_counts`: counters for your plugins, for ``/metrics``.
    - `live`: lets your code follow and change what is served.
    - `controllers`: objects with ``async def run(self, client, clock)``, such as a ``Controller``. They run from when
      the server is ready until it shuts down. One that raises is logged, and runs again after 1 to 60 s. Each of
      several servers on a store, or workers, runs them; use leader election for work that only one may do.
    - `on_start`: called once with a `Client`, when everything is served, before ``/readyz`` succeeds and before the
      controllers run. It may be async, and may take a minute. If it raises, the server doesn't start.
    - `on_stop`: called once with a `Client` on shutdown, after the controllers have ended, while the store is open.
    - `name`: the name of this server in kubeconfigs and health checks.
    - `storage`: a `Backend` that isn't started yet, instead of the one that ``--storage`` names. It can be used once.

    Raises `DeclarationError` when two items of `serve` declare the same resource, when a list has an item of the wrong
    type, when a plugin is for a class that isn't served or names an unknown subresource, when an informer's kind isn't
    stored here, when `authorizer` isn't an `Authorizer`, `storage` no `Backend`, or a controller has no async ``run``.
    """

    if not TYPE_CHECKING:  # checkers read `__init__`, which has no positional parameters

        def __new__(cls, *positional: Any, **keywords: Any) -> APIServer:
            if positional:
                shown = ", ".join(getattr(argument, "__name__", repr(argument)) for argument in positional)
                raise KeywordError("APIServer", f"{shown} without a keyword", f"write APIServer(serve=[{shown}])")
            return super().__new__(cls)

    def __init__(
        self,
        *,
        serve: Sequence[Any],
        admission: Sequence[AnyPlugin | PlacedPlugin] = (),
        informers: Sequence[Informer[Any]] = (),
        garbage_collection: Literal["none", "external"] = "none",
        authenticators: Sequence[Authenticator] = (),
        authorizer: Authorizer | None = None,
        access: Access | None = None,
        admission_counts: AdmissionCounts | None = None,
        live: LiveCatalog | None = None,
        controllers: Sequence[Runnable] = (),
        on_start: ServerHook | None = None,
        on_stop: ServerHook | None = None,
        name: str = DEFAULT_NAME,
        storage: Backend | None = None,
    ) -> None:
        if garbage_collection not in ("none", "external"):
            raise ValueError(f"garbage_collection={garbage_collection!r}: write 'none' or 'external'")
        _check_lists(
            serve=serve,
            admission=admission,
            informers=informers,
            controllers=controllers,
            authenticators=authenticators,
        )
        self.catalog = Catalog.of(served_from(serve))
        _check_admission(
            [plugin.plugin if isinstance(plugin, PlacedPlugin) else plugin for plugin in admission], self.catalog
        )
        _check_informers(informers, self.catalog)
        _check_authenticators(authenticators)
        _check_authorizer(authorizer)
        _check_storage(storage)
        _check_own_work(controllers, on_start=on_start, on_stop=on_stop)
        self.admission = tuple(arranged((), admission))
        self.informers = tuple(informers)
        self.garbage_collection = garbage_collection
        self.authenticators = tuple(authenticators)
        self.authorizer = authorizer
        self.access = access or Access()
        self.admission_counts = admission_counts or AdmissionCounts()
        self.live = live or LiveCatalog()
        self.controllers = tuple(controllers)
        self.on_start = on_start
        self.on_stop = on_stop
        self.name = name
        self.storage = storage
        self.around_dispatch = unchanged
        self.user_code = UserCode(self.admission, self.informers, self.controllers)

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Run the server, with the options of ``oarlock serve`` (`argv`, or the command line), until SIGTERM or SIGINT.

        Ends the process with an exit code.
        """
        # Imported here, because tests and tools import this module too and don't need what serves.
        from oarlock.server import command  # noqa: PLC0415 (see above)

        command.main(self, argv)

    def rules_of_cluster(self, config: ServerConfig, clock: TimerClock) -> ClusterRules | None:
        if not isinstance(config, ExtensionConfig):
            return None
        if config.cluster_kubeconfig is None:
            if config.authorization_kubeconfig is not None:
                log.warning("namespaces, policies and webhooks of the cluster don't apply here: give --kubeconfig too")
            return None
        # Imported here, because few servers stand behind a cluster.
        from oarlock.apps.admission.cluster import ClusterAdmission  # noqa: PLC0415 (see above)

        return ClusterAdmission(config, clock, self.access, self.admission_counts, self.admission)

    def prototype(self) -> Prototype | None:
        """The objects that a new store has after the start, for test kits.

        None if there are none, or if they depend on code of yours.
        """
        return None

    async def replace(self, catalog: Catalog) -> None:
        """Replace everything that is served by `catalog`. Call it in the server's event loop.

        The old catalog is served until everything in the new one is loaded. Resources with the same `Served` value in
        both aren't disturbed. A changed definition is loaded next to the old one (both are in memory meanwhile), and
        its watches end when it takes over; they continue if versions, conversion, selectable fields and field numbers
        are unchanged. Calls are executed one after the other. Raises `NotServing`, and any error of loading; then, and
        when cancelled, nothing has changed.
        """
        await self._serving().replace(catalog)

    async def change(
        self, *, put: Iterable[CatalogItem] = (), remove: Iterable[GroupResource | GroupVersion] = ()
    ) -> None:
        """Add `put` to what is served, replacing entries of the same name, and withdraw `remove`. The rest stays.

        It works as `replace`, but costs only as much as what changes. A `GroupResource` names a resource, a
        `GroupVersion` one that is proxied. Names in `remove` that aren't served are ignored. Also raises
        `CatalogError`, for a name or kind that another entry has.
        """
        await self._serving().change(tuple(put), tuple(remove))

    def client(self, user: User | None = None, *, field_manager: str = "oarlock") -> Client:
        """A `Client` of this server in its own process. Use it in the server's event loop.

        Its requests pass authorization, admission and validation as all others. `user` is the user of its requests, by
        default ``system:apiserver`` of ``system:masters``. Raises `NotServing`.
        """
        return self._serving().client(user, field_manager)

    async def migrate(self, resource: GroupResource) -> Progress:
        """Rewrite the objects of `resource` in the current storage version, as ``oarlock storage migrate`` does.

        Raises LookupError for a resource that isn't stored here, MigrationRefused, and errors of the store.
        """
        return await self._serving().migrate(resource)

    @property
    def shares_store(self) -> bool:
        """Whether other processes may work on the store too; it may change while the server runs."""
        return self.running is not None and self.running.backend.known_rev() is None

    def _serving(self) -> RunningServer:
        if self.running is None:
            raise NotServing("the server isn't running: run it with main(), or oarlock serve")
        return self.running


def _check_lists(**lists: Any) -> None:
    for keyword, value in lists.items():
        if not isinstance(value, list | tuple):
            shown = getattr(value, "__name__", repr(value))
            raise KeywordError("APIServer", f"{keyword}={shown} isn't a list", f"write {keyword}=[…]")


def _check_instance(value: Any, kind: type, what: str, instead: str) -> None:
    """Refuse a class in the place of an object, which otherwise only the first request would notice."""
    if isinstance(value, kind):
        return
    name = getattr(value, "__name__", repr(value))
    advice = f"write {instead.format(name)}" if isinstance(value, type) else ""
    raise KeywordError("APIServer", f"{name} isn't {what}", advice)


def _check_admission(plugins: Sequence[AnyPlugin], catalog: Catalog) -> None:
    """Refuse a plugin for a class that isn't served, or with an unknown subresource: it would never be called."""
    versions = [
        (resource.definition, version) for resource in catalog.resources for version in resource.definition.versions
    ]
    below = [sub for _, version in versions for sub in version.subresources]
    names = {"status", "scale", *(sub.name for sub in below)}
    kinds = {*(definition.gvk(version.name) for definition, version in versions), *(sub.kind for sub in below)}
    for plugin in plugins:
        if not isinstance(plugin, type | Admission) and inspect.iscoroutinefunction(getattr(plugin, "mutate", None)):
            continue  # it looks at trees of any kind
        _check_instance(plugin, Admission, "an Admission plugin", "{}(…)")
        assert isinstance(plugin, Admission)
        plugin_class = type(plugin).__resource__
        if plugin_class is not Resource and declared(plugin_class).gvk not in kinds:
            gvk = declared(plugin_class).gvk
            subject = f"{type(plugin).__name__}, an Admission plugin"
            raise KeywordError(subject, f"{gvk.api_version} {gvk.kind} is not served here", "add it to serve=[…]")
        for name in sorted(plugin.__subresource_names__ - names - {"", "*"}):
            subject = f"{type(plugin).__name__}, an Admission plugin"
            raise KeywordError(subject, f"nothing here has a subresource {name!r}", did_you_mean(name, names))


def _check_informers(informers: Sequence[Informer[Any]], catalog: Catalog) -> None:
    stored = {resource.definition.group_kind for resource in catalog.resources if resource.virtual is None}
    for informer in informers:
        _check_instance(informer, Informer, "an Informer", "Informer({})")
        declaration = declared(informer.kind)
        if GroupKind(declaration.group, declaration.kind) not in stored:
            name = informer.kind.__name__
            raise KeywordError(f"an informer of {name}", f"{name} is not stored here", "add it to serve=[…]")


def _check_storage(storage: Any) -> None:
    if isinstance(storage, str):
        raise KeywordError("APIServer", "a URL isn't a Backend", "set it as --storage, or in ServerConfig(storage=…)")
    missing = isinstance(storage, type) or not hasattr(storage, "current_rev")
    if storage is not None and missing:
        name = getattr(storage, "__name__", type(storage).__name__)
        raise KeywordError("APIServer", f"{name} isn't a Backend", "write storage=MyBackend(…)")


def _check_own_work(controllers: Sequence[Any], **hooks: Any) -> None:
    for controller in controllers:
        name = getattr(controller, "__name__", type(controller).__name__)
        if isinstance(controller, type):
            raise KeywordError("APIServer", f"{name} isn't a controller", f"write {name}()")
        if not inspect.iscoroutinefunction(getattr(controller, "run", None)):
            raise KeywordError("APIServer", f"{name} isn't a controller", "it needs async def run(self, client, clock)")
    for keyword, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise KeywordError("APIServer", f"{keyword}={hook!r} can't be called", "give a function of one client")


def _check_authenticators(authenticators: Sequence[Any]) -> None:
    for authenticator in authenticators:
        name = getattr(authenticator, "__name__", type(authenticator).__name__)
        if isinstance(authenticator, type):
            raise KeywordError("APIServer", f"{name} isn't an Authenticator", f"write {name}(…)")
        if Authenticator not in type(authenticator).__mro__:
            raise KeywordError("APIServer", f"{name} isn't an Authenticator", f"write class {name}(Authenticator)")
        if not inspect.iscoroutinefunction(authenticator.authenticate):
            why = "write async def authenticate(self, credentials)"
            raise KeywordError(f"{name}.authenticate", "isn't async", why)


def _check_authorizer(authorizer: Any) -> None:
    if authorizer is None:
        return
    name = type(authorizer).__name__
    if isinstance(authorizer, type):
        raise KeywordError("APIServer", f"{authorizer.__name__} isn't an Authorizer", f"write {authorizer.__name__}(…)")
    if not isinstance(authorizer, Authorizer):
        raise KeywordError("APIServer", f"{name} isn't an Authorizer", f"write class {name}(Authorizer)")
    decide: Any = authorizer.decide
    if not inspect.iscoroutinefunction(decide) and not hasattr(decide, "__wrapped__"):
        raise KeywordError(f"{name}.decide", "isn't async", "write async def decide(self, user, target)")
