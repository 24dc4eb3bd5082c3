"""What is made before an event loop runs belongs to none: a server object serves several, one after the other."""

from __future__ import annotations

import ast
import asyncio
import gc
import types
from asyncio import mixins
from collections import deque
from collections.abc import Iterable
from typing import Any

from source_trees import PACKAGE, source_trees

from oarlock.apps.api_server import APIServer
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.client.clock import Flag
from oarlock.client.informers.informer import Informer
from oarlock.client.webhooks import WebhookCalls
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.schema.types.resources import Resource
from oarlock.testing import ServerThread

OF_A_LOOP = (mixins._LoopBoundMixin, asyncio.Future, asyncio.AbstractEventLoop)


class Loop(Resource, group="loops.example.com", version="v1"):
    """Something to serve."""

    count: int = 0


class Loops(Controller[Loop]):
    """Something that runs."""

    async def reconcile(self, key: ObjectKey) -> None:
        return None


def _made() -> dict[str, Any]:
    loops = Informer(Loop)
    server = APIServer(serve=[Loop], informers=[loops], controllers=[Loops()])
    return {
        "APIServer": server,
        "ControlPlane": ControlPlane(serve=[Loop], informers=[Informer(Loop)], controllers=[Loops()]),
        "small ControlPlane": ControlPlane(options=ControlPlaneOptions(disable=("workloads",))),
        "ServerThread": ServerThread(ControlPlane()),
        "WebhookCalls": WebhookCalls(lambda service: None),  # type: ignore[arg-type, return-value]
    }


def _below(one: Any) -> Iterable[Any]:
    if isinstance(one, types.FunctionType):
        return [*(one.__closure__ or ()), *(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
    if isinstance(one, type | types.ModuleType):
        return ()
    return gc.get_referents(one)


def _of_a_loop(root: Any) -> list[str]:
    """Where below `root` there is something that belongs to an event loop, or will once it is waited for."""
    seen, queue, found = {id(root): root}, deque([(root, "")]), []
    while queue:
        one, path = queue.popleft()
        if isinstance(one, OF_A_LOOP):
            found.append(f"{path}: {type(one).__name__}")
            continue
        named = type(one).__module__.startswith("oarlock")
        for below in _below(one):
            if id(below) not in seen:
                seen[id(below)] = below
                queue.append((below, f"{path}.{type(one).__name__}" if named else path))
    return found


def test_what_has_not_started_belongs_to_no_loop() -> None:
    assert {name: found for name, one in _made().items() if (found := _of_a_loop(one))} == {}


PRIMITIVES = {"Event", "Lock", "Condition", "Semaphore", "BoundedSemaphore", "Queue", "PriorityQueue", "LifoQueue"}

MADE_IN_A_LOOP = {
    "storage": "a store that is opened",
    "testing": "answers in a test, suites",
    "server/audit": "begun with the server",
    "server/assembly/run.py": "a run of a server",
    "server/workers": "a process",
    "server/local/streams.py": "answers",
    "controllers/running/loop.py": "a run of a controller",
    "controllers/running/group.py": "a run of a group",
    "controllers/events.py": "a run of a group",
    "controllers/running/leases.py": "a run of an election",
    "policy/authn/tokens/issuer_keys.py": "made when the server reads its configuration",
    "registry/read/cached_objects.py": "a resource that is loaded",
    "apps/controllers/garbage": "a run of the collector",
    "client/login/credentials.py": "the credentials of a client of a network",
    "net/pool.py": "connections, made by the first request",
}
"""Classes whose objects are made while a loop runs, and end before it: by folder or file. Others use a `Flag`."""


def test_only_what_lives_within_a_loop_makes_its_primitives_in_init() -> None:
    found = set()
    for path, tree in source_trees().items():
        for init in ast.walk(tree):
            if isinstance(init, ast.FunctionDef) and init.name == "__init__":
                for call in ast.walk(init):
                    made = isinstance(call, ast.Call) and ast.unparse(call.func)
                    if made and made.startswith("asyncio.") and made.removeprefix("asyncio.") in PRIMITIVES:
                        found.add(str(path.relative_to(PACKAGE)))
    unknown = {path for path in found if not any(path.startswith(place) for place in MADE_IN_A_LOOP)}
    assert unknown == set()
    unused = {place for place in MADE_IN_A_LOOP if not any(path.startswith(place) for path in found)}
    assert unused == set()


def test_a_flag_wakes_those_who_wait_in_the_loop_that_runs() -> None:
    flag = Flag()

    async def wait_and_set() -> None:
        waiting = asyncio.ensure_future(flag.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        flag.set()
        await waiting
        flag.clear()

    async def give_up() -> None:
        asyncio.ensure_future(flag.wait())  # noqa: RUF006
        await asyncio.sleep(0)

    for scenario in (wait_and_set, give_up, wait_and_set):
        asyncio.run(scenario())
    assert not flag.is_set()


def test_no_failure_of_shared_work_is_logged_as_lost() -> None:
    """`asyncio.shield` logs a failure that comes when all have given up; `oarlock.net.futures.shared` doesn't."""
    shields = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in source_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "shield"
    ]
    assert shields == []
