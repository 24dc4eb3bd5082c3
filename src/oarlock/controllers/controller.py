"""`Controller`: the base class of code that brings the world in line with the objects of a kind.

    class Databases(Controller[Database], owns=[Secret], finalizer="shop.example.com/database"):
        async def reconcile(self, key: ObjectKey) -> Result | None:
            database = self.informer.get(key.name, key.namespace)
            …

`reconcile` is called with the key of every object that exists when it starts, and again after each change of it or of
what belongs to it: once for several changes, and never twice at a time for one key. It is told nothing of what changed:
it looks, and makes right what isn't. The same class runs inside a server, beside it, and in a test.

Must not know: what runs it. See also: `group`, which does; `loop`, which calls it; `base`, what it has.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.running.group import ControllerGroup

__all__ = ["Controller"]

T = TypeVar("T")


class Controller(ControllerBase[T], Generic[T]):
    """Reconciles the objects of `T`, a declared class, or trees: ``Controller[dict[str, Any]], of="v1/Secret"``.

    Write `reconcile`. The class keywords are described at `ControllerOptions`; `namespace`, `label_selector` and
    `field_selector` are those of its `selection`. While it runs, `self` has a `client`, an `informer` of its kind,
    the `informers` of all that it follows, and `events` for people. An instance runs in one place at a time.
    """

    async def run(self, client: Client, clock: TimerClock) -> None:
        """Run alone until cancelled, then end within seconds; with a `lease`, as elected leader. Servers call it."""
        await ControllerGroup([self]).run(client, clock)
