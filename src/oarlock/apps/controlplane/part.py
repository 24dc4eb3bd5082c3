"""`ControlPlanePart`: what one part adds to a control plane. `PartSurroundings`: what it is given of its server.

See also: `parts`, those that there are; `control_plane`, which puts them together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from oarlock.apps.controllers.migration import MigrateResource
from oarlock.apps.controlplane.collections.identities import IdentitiesSource
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.kinds.pods.hooks import PodHooks
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.authz.access import Access
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.description import ServerAddress
from oarlock.server.live_catalog import LiveCatalog
from oarlock.server.options.option import OptionGroup
from oarlock.storage.backend import Backend

__all__ = ["ControlPlanePart", "InstalledParts", "MakePart", "PartSurroundings"]


@dataclass(frozen=True, slots=True)
class ControlPlanePart:
    """What one part adds to the server; see `APIServer` for each field.

    `name` is what ``disable`` calls it. `controllers` are by the names that ``--controllers`` takes: those of
    kube-controller-manager where it has the same one. Those that are `managed` are kube-controller-manager's, and
    ``--controllers`` says which of them run. Those that are `everywhere` run on each of several servers of a
    store, the others on one of them. `needs` are the parts that this one can't be without. `start` is
    called once everything is served, before anybody is told that the server is ready; that of a part that
    `fills_catalog` serves more. `pods` answers for kubelets, unless the control plane was given another.
    """

    name: str
    serve: Sequence[Any] = ()
    admission: Sequence[Admission[Any] | AdmissionPlugin] = ()
    informers: Sequence[Informer[Any]] = ()
    controllers: Mapping[str, Runnable] = field(default_factory=dict)
    everywhere: Sequence[str] = ()
    managed: Sequence[str] = ()
    needs: Sequence[str] = ()
    fills_catalog: bool = False
    start: Callable[[Client], Awaitable[None]] | None = None
    pods: PodHooks | None = None


@dataclass(frozen=True, slots=True)
class PartSurroundings:
    """What parts are given of the server that they are made for.

    `identities` are those that it lets in, and `address` is where it is reached, both once it runs; `access` asks what
    somebody may do; `live` is what it serves; `options` are the control plane's; `migrate` rewrites stored objects, and
    `store` has them, once it runs;
    `certificates` is where it keeps those that it makes, None in memory, `signs` whether clients are let in by what an
    authority of its own signs, and `front_proxy` where it keeps the one that
    it shows to backends, None if it makes none; `pods` answers for kubelets. Calls of webhooks are counted in
    `admission_counts`.
    """

    identities: IdentitiesSource
    address: Callable[[], ServerAddress | None]
    access: Access
    live: LiveCatalog
    options: ControlPlaneOptions
    migrate: MigrateResource
    store: Callable[[], Backend]
    certificates: Callable[[], Path | None] = lambda: None
    signs: Callable[[], bool] = lambda: True
    front_proxy: Callable[[], Path | None] = lambda: None
    pods: PodHooks | None = None
    admission_counts: AdmissionCounts = field(default_factory=AdmissionCounts)


MakePart = Callable[[PartSurroundings], ControlPlanePart]
"""Makes a part for one control plane. It is called once, before anything runs; what it raises ends the declaration."""


@dataclass(frozen=True, slots=True)
class InstalledParts:
    """What an entry point of the group ``oarlock.parts`` names: parts of another package, for ``oarlock up``.

    `options` are flags of ``oarlock up`` for them, and `parts` makes those that are wanted, of what was given.
    """

    options: type[OptionGroup]
    parts: Callable[[Any], Sequence[MakePart]]
