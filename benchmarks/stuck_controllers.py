"""What does a control plane spend on what it can't finish, and how long does that hold its loop?

100 namespaces and 100 definitions with an object that somebody's finalizer keeps, and a quota that names 10,000
resources that nobody serves. Goal: at most 2 % of a core while nobody asks, and no hold over 20 ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import uvloop

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import serve_until_signal
from oarlock.server.config import ServerConfig
from support.heart import ObservedServer, Patient, patient

COUNT = 100
NAMES = 10_000
SETTLE_S, IDLE_S = 60.0, 60.0
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "stuck.example.com"
HELD = ["example.com/hold"]


class _Child(ObservedServer):
    async def command(self, word: str, *arguments: str) -> None:
        raise AssertionError(f"it knows no command {word}")


def main() -> None:
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    server = ControlPlane()
    config = ServerConfig(secure_port=port, storage=sys.argv[3], data_dir=folder, token_auth_file=folder / "tokens.csv")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_signal(server, config, SystemClock(), _Child(server)))


def post(server: Patient, path: str, tree: object, expected: int = 201) -> None:
    status, body = server.ask("POST", path, json.dumps(tree).encode())
    if status != expected:
        sys.exit(f"POST {path}: {status} {body[:300]!r}")


def stick_namespaces(server: Patient) -> None:
    for number in range(COUNT):
        name = f"stuck{number}"
        post(server, NAMESPACES, {"metadata": {"name": name}})
        post(server, f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "held", "finalizers": HELD}})
        server.ask("DELETE", f"{NAMESPACES}/{name}")


def stick_definitions(server: Patient) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    for number in range(COUNT):
        names = {"plural": f"kinds{number}", "kind": f"Kind{number}"}
        spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
        post(server, DEFINITIONS, {"metadata": {"name": f"kinds{number}.{GROUP}"}, "spec": spec})
        path = f"/apis/{GROUP}/v1/kinds{number}"
        while server.ask("GET", path)[0] != 200:
            time.sleep(0.01)
        held = {"apiVersion": f"{GROUP}/v1", "kind": f"Kind{number}", "metadata": {"name": "held", "finalizers": HELD}}
        post(server, path, held)
        server.ask("DELETE", f"{DEFINITIONS}/kinds{number}.{GROUP}")


def limit_unknown(server: Patient) -> None:
    hard = {f"count/things{number}.example.org": "1" for number in range(NAMES)}
    post(server, f"{NAMESPACES}/default/resourcequotas", {"metadata": {"name": "unknown"}, "spec": {"hard": hard}})


def measure(server: Patient, what: str, seconds: float) -> None:
    server.rest()
    began, cpu_s = time.monotonic(), server.server.cpu_s()
    time.sleep(seconds)
    busy = (server.server.cpu_s() - cpu_s) / (time.monotonic() - began)
    held = server.held()
    print(
        f"{what}: {busy * 100:.1f} % of a core; longest hold {held.cpu_ms:.1f} ms (by the clock {held.wall_ms:.1f})",
        flush=True,
    )


def run(cases: list[str]) -> None:
    every = {"namespaces": stick_namespaces, "definitions": stick_definitions, "quota": limit_unknown}
    with patient("memory://", "stuck_controllers") as server:
        time.sleep(5)
        measure(server, "idle", IDLE_S / 2)
        for name in cases or every:
            server.rest()
            every[name](server)
            held = server.held()
            print(f"{name} made: longest hold {held.cpu_ms:.1f} ms (by the clock {held.wall_ms:.1f})", flush=True)
        measure(server, f"the first {SETTLE_S:g} s", SETTLE_S)
        measure(server, "later", IDLE_S)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[2].isdecimal():
        main()
    else:
        run(sys.argv[1:])
