"""`Controller`: the base class of code that brings the world in line with the objects of a kind.

    class Databases(Controller[Database], owns=[Secret], finalizer="shop.example.com/database"):
        async def reconcile(self, key: ObjectKey) -> Result | None:
            database = self.informer.get(key.name, key.namespace)
            …

`reconcile` is called with the key of every object that exists when it starts, and again after each change of it or of
what belongs to it: once for several changes, and never twice at a time for one key. It doesn't get to know what
changed: it looks, and makes right what isn't. The same class runs inside a server, beside it, and in a test.

`ClusterControllers` are controllers in a server that work on the cluster which the server is behind:

    server = APIServer(serve=[Site], controllers=[ClusterControllers([Sites()])])

Must not know: what runs them. See also: `group`, which does; `loop`, which calls `reconcile`; `base`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.http_transport import connect
from oarlock.client.login.kubeconfig import load_config
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.running.group import ControllerGroup

T = TypeVar("T")


class Controller(ControllerBase[T], Generic[T]):
    """Reconciles the objects of a kind.

    `T` is a declared class, or the type of trees: ``Controller[dict[str, Any]], of="v1/Secret"``. Write `reconcile`.
    `ControllerOptions` describes the class keywords; `namespace`, `label_selector` and `field_selector` are those of
    its `selection`. While the controller runs, `self` has a `client`, an `informer` of its kind, the `informers` of all
    kinds that it follows, `events`, and the `clock`. An instance can run in one place at a time.
    """

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run this controller until cancelled, then end within seconds. With a `lease` it runs with leader election.

        Servers call it.
        """
        await ControllerGroup([self]).run(client, clock)


class ClusterControllers(ControllerGroup):
    """A `ControllerGroup` that acts on a cluster: that of `kubeconfig`, of ``KUBECONFIG``, or of the pod.

    ``oarlock manifests`` permits the server what the declarations of its controllers need: to follow and change their
    kinds, to create and delete the kinds that they own, and to follow the kinds that they watch. ``--allow`` adds to
    that. Without a cluster the group fails and is retried. With several servers, set a `lease`.
    """

    kubeconfig: Path | None = None
    """The kubeconfig to use, for tests and for servers outside of the cluster."""
    context = ""
    """The context of the kubeconfig, by default the current one."""

    def needed_lease(self) -> str:
        """Empty, because the lease is one of the cluster's, not of this server's."""
        return ""

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run until cancelled. `client` is the server's own, which isn't used. Raises ClientConfigError."""
        async with connect(
            load_config(self.kubeconfig, context=self.context), field_manager=client.settings.field_manager
        ) as cluster:
            await super().run(cluster, clock)
