"""`ClusterControllers`: controllers in a server that work on the cluster which the server is behind.

    server = APIServer(serve=[Site], controllers=[ClusterControllers([Sites()])])

What the server serves itself they see through the cluster as well, as everybody does. See also: `group`.
"""

from __future__ import annotations

from pathlib import Path

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.connecting import connect
from oarlock.client.login.kubeconfig import load_config
from oarlock.controllers.running.group import ControllerGroup

__all__ = ["ClusterControllers"]


class ClusterControllers(ControllerGroup):
    """A `ControllerGroup` whose client is the cluster's: that of `kubeconfig` or ``KUBECONFIG``, or of the pod.

    ``oarlock manifests`` allows the server what the declarations of its controllers need: to follow and change their
    kinds, to create and delete what they own, to follow what they watch; ``--allow`` adds to that. Without a cluster it
    fails, and is tried again. With several servers, say a `lease`.
    """

    kubeconfig: Path | None = None
    """Set it in a test, or beside a cluster."""

    def needed_lease(self) -> str:
        """Empty: the lease is one of the cluster's."""
        return ""

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run until cancelled. `client` is the server's own, which isn't used. Raises ClientConfigError."""
        async with connect(load_config(self.kubeconfig), field_manager=client.settings.field_manager) as cluster:
            await super().run(cluster, clock)
