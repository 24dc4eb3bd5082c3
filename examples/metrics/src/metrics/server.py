"""Everything that is served: the whole wiring.

oarlock serve src/metrics/server.py, with KUBECONFIG for the cluster that it looks at
"""

from oarlock import APIServer
from oarlock.client import Client

from .collections.cluster import Cluster
from .collections.nodes import Nodes
from .collections.pods import Pods


def make_server(cluster: Client | None = None) -> APIServer:
    """A server of its own for each test, as `server` is for everybody else."""
    looked_at = Cluster(cluster)

    async def stop(client: Client) -> None:
        await looked_at.close()

    return APIServer(serve=[Nodes(looked_at), Pods(looked_at)], on_stop=stop, name="metrics")


server = make_server()

if __name__ == "__main__":
    server.main()
