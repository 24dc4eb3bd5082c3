"""`DefinitionServing`: keeps the catalog of a server as the CustomResourceDefinitions in the store say.

Every server of a store does this for itself, as soon as it hears of a change. A definition that can't be served is told
in the log and left out; the others don't notice. See also: `status`, which decides what is established.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from oarlock.apps.crds.conditions import ESTABLISHED, TERMINATING, condition_of, is_true
from oarlock.apps.crds.conversion import CannotServe, Converters, no_webhooks, resource_of
from oarlock.apps.kinds.apiextensions import CustomResourceDefinition, CustomResourceDefinitionNames
from oarlock.client.client import Client
from oarlock.client.clock import Flag, TimerClock
from oarlock.client.informers.informer import Informer
from oarlock.endpoints.catalog import CatalogError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import ServiceUnavailable
from oarlock.meta.kinds import GroupResource
from oarlock.net.futures import shared
from oarlock.registry.served import Served
from oarlock.registry.stored.records import StoreTooNew
from oarlock.schema.compiled import SchemaError
from oarlock.server.description import LiveCatalog
from oarlock.storage.backend import StorageError
from oarlock.storage.pacing import Pacer

log = logging.getLogger("oarlock.crds")

AT_ONCE = 100
"""How many definitions are loaded in one step."""

RETRY_S = 1.0
"""How long to wait before trying again, when the store didn't answer."""


@dataclass(frozen=True, slots=True)
class _ServedForm:
    """What of a definition decides how it is served: another form is another catalog entry."""

    uid: str
    generation: int
    names: CustomResourceDefinitionNames
    deleted: bool


class DefinitionServing:
    """Serves what is established, on one server. A `Runnable`, and a `CatalogSource` of `live`.

    `informer` has the definitions in the store; it is listed in ``APIServer(informers=…)``.
    """

    def __init__(
        self, live: LiveCatalog, informer: Informer[CustomResourceDefinition], converters: Converters = no_webhooks
    ) -> None:
        self._live = live
        self._informer = informer
        self._converters = converters
        self._forms: dict[str, _ServedForm] = {}
        """What is served, or was tried, by the name of the definition."""
        self._failures: dict[str, str] = {}
        self._early: dict[str, CustomResourceDefinition] = {}
        self._due: dict[str, None] = {}
        self._wake = Flag()
        self._round: asyncio.Future[None] | None = None
        self._runs = False
        informer.add_handler(self._changed)

    # What changes

    def _changed(self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None) -> None:
        crd = new or old
        if crd is not None:
            self._mark(crd.metadata.name)

    def _mark(self, name: str) -> None:
        self._due[name] = None
        self._wake.set()

    async def serve(self, crd: CustomResourceDefinition) -> None:
        """Serve what `crd` says already, which the store is going to say; nothing if it isn't established.

        Raises CannotServe, and ServiceUnavailable when the store doesn't answer.
        """
        name = crd.metadata.name
        self._early[name] = crd
        self._mark(name)
        await self.caught_up()
        if name in self._failures:
            raise CannotServe(self._failures[name])
        if self._forms.get(name) != _form(crd):
            raise ServiceUnavailable(f"CustomResourceDefinition {name} isn't loaded yet")

    def has(self, name: str) -> bool:
        """Whether the definition of this name is, or was a moment ago, in the catalog."""
        return name in self._forms

    def failure(self, name: str) -> str:
        """Why the definition of this name isn't served although it is established; empty if it is."""
        return self._failures.get(name, "")

    # As a source of the catalog

    def behind(self) -> bool:
        return self._runs and (bool(self._due) or self._round is not None or self._informer.observers.behind)

    async def caught_up(self) -> None:
        await self._informer.observers.delivered()
        rounds = len(self._due) // AT_ONCE + 2  # no more: others may come all the time, or the store may be away
        while self._runs and rounds and (self._due or self._round is not None):
            rounds -= 1
            if self._round is None:
                self._round = asyncio.get_running_loop().create_future()
            await shared(self._round)

    # Working

    async def start(self, client: Client) -> None:
        """Serve everything that is established now. Called before the server is ready.

        Until it ends, what isn't served yet is told to come back later, as by kube-apiserver.
        """
        self._forms.clear()
        self._failures.clear()
        self._early.clear()
        self._round = None
        await self._informer.observers.delivered()
        self._due.update(dict.fromkeys(crd.metadata.name for crd in self._informer))
        while self._due:
            await self._next_round(len(self._due))
        self._live.sources = [self]
        self._live.complete = True

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Work until cancelled."""
        self._runs = True
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._work(clock)
        finally:
            self._runs = False

    async def _work(self, clock: TimerClock) -> None:
        while self._due:
            try:
                await self._next_round()
            except StorageError as error:
                log.warning("definitions can't be served yet: %s", error)
                await clock.sleep(RETRY_S)

    async def _next_round(self, most: int = AT_ONCE) -> None:
        names = [name for name, _ in zip(self._due, range(most), strict=False)]
        for name in names:
            del self._due[name]
        if self._round is None:
            self._round = asyncio.get_running_loop().create_future()
        try:
            await self._bring_up_to_date(names)
        except BaseException:
            self._due.update(dict.fromkeys(names))
            raise
        finally:
            done, self._round = self._round, None
            done.set_result(None)

    async def _bring_up_to_date(self, names: Sequence[str]) -> None:
        put: dict[str, Served] = {}
        remove: list[GroupResource] = []
        forms: dict[str, _ServedForm | None] = {}
        pacer = Pacer()
        for name in names:
            await pacer.turn()
            crd = self._early.pop(name, None) or self._informer.get(name)
            form = None if crd is None else _form(crd)
            before = self._forms.get(name)
            if form == before:
                continue
            forms[name] = form
            if crd is None or form is None:
                remove.append(_resource(name))
                continue
            try:
                put[name] = resource_of(crd, self._converters)
            except CannotServe as error:
                self._refuse(name, str(error))
        await self._change(put, remove)
        for name, now in forms.items():
            if now is None:
                self._forms.pop(name, None)
                self._failures.pop(name, None)
            else:
                self._forms[name] = now

    async def _change(self, put: dict[str, Served], remove: list[GroupResource]) -> None:
        """Change the catalog. What can't be loaded is left out."""
        if not (put or remove):
            return
        try:
            await self._live.change(put=put.values(), remove=remove)
        except (CatalogError, SchemaError, StoreTooNew) as error:
            if not put:
                raise
            if len(put) == 1 and not remove:
                (name,) = put
                self._refuse(name, str(error))
                return
            half = len(put) // 2
            await self._change(dict(list(put.items())[:half]), remove)
            await self._change(dict(list(put.items())[half:]), [])
            return
        for name in put:
            self._failures.pop(name, None)

    def _refuse(self, name: str, why: str) -> None:
        self._failures[name] = why
        log.error("CustomResourceDefinition %s isn't served: %s", name, why)


def _form(crd: CustomResourceDefinition) -> _ServedForm | None:
    """How it is to be served; None if it isn't established, or its objects have been deleted."""
    metadata: Any = crd.metadata
    ending = condition_of(crd, TERMINATING) if metadata.deletion_timestamp else None
    if not is_true(crd, ESTABLISHED) or (ending is not None and ending.status == "False"):
        return None
    return _ServedForm(
        metadata.uid, metadata.generation or 0, crd.status.accepted_names, bool(metadata.deletion_timestamp)
    )


def _resource(name: str) -> GroupResource:
    plural, _, group = name.partition(".")
    return GroupResource(group, plural)
