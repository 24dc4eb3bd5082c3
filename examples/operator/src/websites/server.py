"""Everything that is served: the whole wiring.

oarlock serve src/websites/server.py
"""

from oarlock import ControlPlane

from .admission.website_webhook import WebsiteCreator
from .collections.websites import Websites
from .controllers.website import WebsiteController


def make_server() -> ControlPlane:
    """A server of its own for each test, as `server` is for everybody else."""
    return ControlPlane(
        serve=[Websites], controllers=[WebsiteController()], admission=[WebsiteCreator()], name="websites"
    )


server = make_server()

if __name__ == "__main__":
    server.main()
