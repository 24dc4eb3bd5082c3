"""The controller: lets each database have the servers that it wants, and tells how it is.

The same file runs in the server (`server.py`), beside it (``oarlock run``), and in tests.
"""

from oarlock import Clock, Condition, set_condition
from oarlock.client.clock import SystemClock
from oarlock.controllers import Controller, ObjectKey, Result, generation_changed, write_status

from ..api.v1.database import Database, DatabaseStatus
from ..engines import Engines

RETRY_S = 30.0


class DatabaseController(Controller[Database], finalizer="db.example.com/servers", when=generation_changed):
    """Databases on `engines`. `clock` says since when one is ready."""

    def __init__(self, engines: Engines, clock: Clock | None = None) -> None:
        self._engines = engines
        self._clock = clock or SystemClock()

    async def reconcile(self, key: ObjectKey) -> Result | None:
        database = self.informer.get(key.name, key.namespace)
        if database is None:
            return None
        wanted = database.spec.replicas
        addresses = await self._engines.run(str(key), wanted)
        ready = Condition(type="Ready", status="True", reason="Running")
        if len(addresses) < wanted:
            why = f"there is room for {len(addresses)} of {wanted} servers"
            ready = Condition(type="Ready", status="False", reason="NoRoom", message=why)
        conditions = [*database.status.conditions] if database.status is not None else []
        set_condition(conditions, ready, self._clock)
        status = DatabaseStatus(
            ready_replicas=len(addresses),
            addresses=addresses,
            observed_generation=database.metadata.generation or 0,
            conditions=conditions,
        )
        await write_status(self.client, database, status)
        return None if ready.status == "True" else Result(requeue_after_s=RETRY_S)

    async def finalize(self, obj: Database) -> Result | None:
        await self._engines.drop(f"{obj.metadata.namespace}/{obj.metadata.name}")
        return None


controllers = [DatabaseController(Engines("servers"))]
