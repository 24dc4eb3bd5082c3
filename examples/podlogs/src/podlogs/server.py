"""Everything that is served: the whole wiring.

oarlock serve src/podlogs/server.py
"""

from oarlock import ControlPlane

from .collections.computers import Computers
from .pods import PodShells
from .shells import Shells


def make_server() -> ControlPlane:
    """A server of its own for each test, as `server` is for everybody else."""
    shells = Shells()
    return ControlPlane(serve=[Computers(shells)], pods=PodShells(shells), name="podlogs")


server = make_server()

if __name__ == "__main__":
    server.main()
