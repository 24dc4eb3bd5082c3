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
from oarlock.apps.kinds.pods.subresources import PodHooks
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta.dataclass import dataclass
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.authz.union import Access
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.description import LiveCatalog, ServerAddress
from oarlock.server.options.option import OptionGroup
from oarlock.storage.backend import Backend


@dataclass(frozen=True, slots=True)
class ControlPlanePart:
    """What one part adds to the server; `APIServer` describes the fields of the same name.

    - `name`: the name for ``disable``.
    - `controllers`: by the names that ``--controllers`` takes, which are kube-controller-manager's if it has the same
      one.
    - `managed`: names of controllers of kube-controller-manager; ``--controllers`` selects which of them run.
    - `everywhere`: names of controllers that run on each server of a store. The others run on one of them.
    - `needs`: names of parts that this part requires.
    - `start`: called once everything is served, before the server reports that it is ready. With `fills_catalog` it
      adds to what is served.
    - `pods`: answers for kubelets, unless the control plane was given another.
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
    """The things of a server that its parts may use.

    - `identities`: the identities that the server accepts. `address`: returns its address. Both once it runs.
    - `access`: answers whether a user may do something.
    - `live`: the catalog that is served.
    - `options`: those of the control plane.
    - `migrate`: rewrites stored objects. `store`: returns the store, once the server runs.
    - `certificates`: returns the folder of the certificates that the server makes; None in memory.
    - `signs`: returns whether clients are authenticated by certificates of a CA of the server's own.
    - `front_proxy`: returns the folder of the certificate that it shows to backends; None if it makes none.
    - `pods`: answers for kubelets.
    - `admission_counts`: counts the calls of webhooks.
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
    """The value of an entry point of the group ``oarlock.parts``: parts of another package, for ``oarlock up``.

    `options` are their flags. `parts` makes the parts from the values of these flags.
    """

    options: type[OptionGroup]
    parts: Callable[[Any], Sequence[MakePart]]
