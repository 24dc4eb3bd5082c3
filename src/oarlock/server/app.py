"""`APIServer`: everything a server serves, listed in one place. What users write, and all they need to.

    server = APIServer(serve=[Flunders, v1alpha1.Flunder], admission=[BanFlunder(fischers)], informers=[fischers])

A value until it is run; making one opens nothing. Next: `run`, which brings it to life.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from oarlock.endpoints.catalog import Catalog
from oarlock.meta.kinds import GroupKind
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.authz.authorizer import Authorizer
from oarlock.registry.declare import served_from
from oarlock.registry.informer import Informer
from oarlock.schema.declaring import KeywordError, did_you_mean
from oarlock.schema.resources import Resource, declared

if TYPE_CHECKING:
    from oarlock.server.run import Running

__all__ = ["APIServer", "NotServing"]


class NotServing(RuntimeError):
    """The server isn't running."""


class APIServer:
    """What to serve.

    - `serve`: `Resource` and `Spoke` classes, collections, or finished `Served` values.
    - `admission`: plugins, asked in this order about every write.
    - `informers`: those that `admission` or collections read; they are live once the server is ready.
    - `garbage_collection`: ``external`` when a cluster's controller deletes dependents, so that a delete may leave
      the finalizers it waits for; ``none`` when nobody does, and such deletes are refused.
    - `authorizer`: an `Authorizer`, who may do what; everybody who is known may do everything unless given.
    - `name`: of this server, as kubeconfigs and health checks show it.

    Raises `DeclarationError` when two entries of `serve` declare the same thing, when a list holds something else than
    it says, when a plugin is for a class that isn't served or names a subresource that nothing here has, when an
    informer's kind isn't stored here, or when `authorizer` can't be asked.
    """

    if not TYPE_CHECKING:  # checkers read `__init__`, which has no positional parameters

        def __new__(cls, *listed: Any, **keywords: Any) -> APIServer:
            if listed:
                shown = ", ".join(getattr(one, "__name__", repr(one)) for one in listed)
                raise KeywordError("APIServer", f"{shown} without a keyword", f"write APIServer(serve=[{shown}])")
            return super().__new__(cls)

    def __init__(
        self,
        *,
        serve: Sequence[Any],
        admission: Sequence[Admission[Any]] = (),
        informers: Sequence[Informer[Any]] = (),
        garbage_collection: Literal["none", "external"] = "none",
        authorizer: Authorizer | None = None,
        name: str = "oarlock",
    ) -> None:
        if garbage_collection not in ("none", "external"):
            raise ValueError(f"garbage_collection={garbage_collection!r}: say 'none' or 'external'")
        _check_lists(serve=serve, admission=admission, informers=informers)
        self.catalog = Catalog.of(served_from(serve))
        _check_admission(admission, self.catalog)
        _check_informers(informers, self.catalog)
        _check_authorizer(authorizer)
        self.admission = tuple(admission)
        self.informers = tuple(informers)
        self.garbage_collection = garbage_collection
        self.authorizer = authorizer
        self.name = name
        self.running: Running | None = None

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Run it, with the options of ``oarlock serve`` (`argv`, or the command line), until it is told to leave.

        Ends the process with an exit code, like any program.
        """
        # Only a process that serves pays for loading what serves: tests and tools import this module too.
        from oarlock.server import command  # noqa: PLC0415 (see above)

        command.main(self, argv)

    async def replace(self, catalog: Catalog) -> None:
        """Serve `catalog` once this returns, in the loop the server runs in; one replacement at a time.

        The old catalog is served until everything in the new one is loaded. What is unchanged goes on undisturbed. A
        definition that changed is loaded beside the old one (both are in memory meanwhile), and its watches end when
        the new one takes over; they go on if the change concerns neither versions, conversion, selectable fields nor
        field numbers. Raises `NotServing`, and whatever keeps the new catalog from being loaded: then, and when this
        is cancelled, nothing has changed.
        """
        if self.running is None:
            raise NotServing("the server isn't running: run it with main(), or oarlock serve")
        await self.running.replace(catalog)


def _check_lists(**given: Any) -> None:
    for keyword, value in given.items():
        if not isinstance(value, list | tuple):
            shown = getattr(value, "__name__", repr(value))
            raise KeywordError("APIServer", f"{keyword}={shown} is no list", f"write {keyword}=[…]")


def _check_instance(value: Any, kind: type, what: str, instead: str) -> None:
    """A class in the place of an object would only be noticed by the first request."""
    if isinstance(value, kind):
        return
    name = getattr(value, "__name__", repr(value))
    advice = f"write {instead.format(name)}" if isinstance(value, type) else ""
    raise KeywordError("APIServer", f"{name} isn't {what}", advice)


def _check_admission(plugins: Sequence[Admission[Any]], catalog: Catalog) -> None:
    """A plugin for a class that nothing here has, or that names a subresource wrongly, would never be asked."""
    versions = [(one.definition, version) for one in catalog.entries for version in one.definition.versions]
    below = [sub for _, version in versions for sub in version.subresources]
    known = {"status", "scale", *(sub.name for sub in below)}
    kinds = {*(definition.gvk(version.name) for definition, version in versions), *(sub.kind for sub in below)}
    for plugin in plugins:
        _check_instance(plugin, Admission, "an Admission plugin", "{}(…)")
        wanted = type(plugin).__resource__
        if wanted is not Resource and declared(wanted).gvk not in kinds:
            said = declared(wanted).gvk
            subject = f"{type(plugin).__name__}, an Admission plugin"
            raise KeywordError(subject, f"{said.api_version} {said.kind} is not served here", "add it to serve=[…]")
        for name in sorted(plugin.__seen__ - known - {"", "*"}):
            subject = f"{type(plugin).__name__}, an Admission plugin"
            raise KeywordError(subject, f"nothing here has a subresource {name!r}", did_you_mean(name, known))


def _check_informers(informers: Sequence[Informer[Any]], catalog: Catalog) -> None:
    stored = {one.definition.group_kind for one in catalog.entries if one.virtual is None}
    for informer in informers:
        _check_instance(informer, Informer, "an Informer", "Informer({})")
        said = declared(informer.kind)
        if GroupKind(said.group, said.kind) not in stored:
            name = informer.kind.__name__
            raise KeywordError(f"an informer of {name}", f"{name} is not stored here", "add it to serve=[…]")


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
