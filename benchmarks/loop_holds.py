"""How long does one request hold the event loop? The longest turn in ms of the loop's CPU, for objects made to be long.

The server is `oarlock up` in this process, without sockets: every turn of the loop is timed, and a request's longest is
told. What runs in threads meanwhile isn't counted. A limit is missed when a turn takes more than 20 ms of an idle core.

    python benchmarks/loop_holds.py [PART OF A NAME …]
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from asyncio import events
from collections.abc import AsyncIterator, Callable
from typing import Any

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import User
from oarlock.server.assembly.lifecycle import GC_THRESHOLDS
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
CORE = "/api/v1/namespaces/default"
ALICE = User("alice", groups=("system:masters", "system:authenticated"))
BOB = User("bob", groups=("system:authenticated",))
ABOUT = {"verb": "get", "resource": "pods"}
LIMIT_MS = 20.0

Ask = tuple[str, str, Any]
"""Method, path and body."""


class Turns:
    """The turns of the loop, timed: `longest_ms` since it was set to 0."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        run = events.Handle._run

        def timed(handle: events.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest_ms = max(self.longest_ms, (time.thread_time() - began) * 1000)

        events.Handle._run = timed  # type: ignore[method-assign, assignment]


def rules(count: int) -> list[dict[str, Any]]:
    return [{"verbs": ["get"], "apiGroups": [f"g{n}.example.com"], "resources": [f"r{n}"]} for n in range(count)]


def subjects(count: int) -> list[dict[str, Any]]:
    return [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"u{n}"} for n in range(count)]


def webhooks(count: int) -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": ["nobody.example.com"], "apiVersions": ["v1"], "resources": ["x"]}
    base = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "rules": [rule]}
    config = {"url": "https://127.0.0.1:1/"}
    hooks = [{"name": f"h{n}.example.com", "clientConfig": config, **base} for n in range(count)]
    return {"metadata": {"name": "many"}, "webhooks": hooks}


def binding(name: str, role: str, who: list[dict[str, Any]]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": who}


def review(**spec: Any) -> Ask:
    return "POST", f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "x", "resourceAttributes": ABOUT, **spec}}


def selector(text: str) -> Ask:
    from urllib.parse import quote  # noqa: PLC0415

    return "GET", f"{CORE}/configmaps?labelSelector={quote(text)}", None


KEYS = {f"k{n}": "v" for n in range(100_000)}
APPLIED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "applied"},
    "data": dict([*KEYS.items()][:60_000]),
}

CASES: dict[str, Ask] = {
    "review: 100,000 extra keys": review(extra={f"g{n}": ["v"] for n in range(100_000)}),
    "review: 200,000 extra values": review(extra={"g": [f"v{n}" for n in range(200_000)]}),
    "review: 150,000 groups": review(groups=[f"g{n}" for n in range(150_000)]),
    "role of 20,000 rules": ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "wide"}, "rules": rules(20_000)}),
    "binding of it": (
        "POST",
        f"{RBAC}/clusterrolebindings",
        binding("wide", "wide", [{"kind": "User", "name": "bob"}]),
    ),
    "rules review of bob": ("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
    "role of 20,000 rules, changed": (
        "PUT",
        f"{RBAC}/clusterroles/wide",
        {"metadata": {"name": "wide"}, "rules": rules(20_001)},
    ),
    "binding of 30,000 subjects": ("POST", f"{RBAC}/clusterrolebindings", binding("many", "view", subjects(30_000))),
    "its deletion": ("DELETE", f"{RBAC}/clusterrolebindings/many", None),
    "role's deletion": ("DELETE", f"{RBAC}/clusterroles/wide", None),
    "5,000 webhooks": (
        "POST",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        webhooks(5_000),
    ),
    "create with them": ("POST", f"{CORE}/configmaps", {"metadata": {"name": "plain"}}),
    "secret of 100,000 keys": ("POST", f"{CORE}/secrets", {"metadata": {"name": "s"}, "stringData": KEYS}),
    "config map of 100,000 keys": ("POST", f"{CORE}/configmaps", {"metadata": {"name": "c"}, "data": KEYS}),
    "config map, changed": ("PUT", f"{CORE}/configmaps/c", {"metadata": {"name": "c"}, "data": {**KEYS, "k0": "w"}}),
    "apply of 60,000 keys": ("PATCH", f"{CORE}/configmaps/applied?fieldManager=a&force=true", APPLIED),
    "apply again": ("PATCH", f"{CORE}/configmaps/applied?fieldManager=b&force=true", APPLIED),
    "list, 900 terms": selector(",".join(f"k{n}!=v" for n in range(900))),
    "list, 60,000 characters of values": selector(f"app in ({','.join(f'v{n}' for n in range(9_000))})"),
    "list, many values twice": selector(
        ",".join(f"app notin ({','.join(f'v{n}' for n in range(90))})" for _ in range(90))
    ),
}


async def populated() -> AsyncIterator[InMemory]:
    config = ServerConfig(storage="memory://", authorization_mode=("RBAC",))
    async with InMemory(ControlPlane(), config=config, user=ALICE) as api:
        for number in range(1_000):
            body = {"metadata": {"name": f"o{number}", "labels": {"app": f"a{number}", "tier": "x"}}}
            await api.post(f"{CORE}/configmaps", body)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        yield api


async def main(wanted: Callable[[str], bool]) -> int:
    turns, missed = Turns(), 0
    async for api in populated():
        for name, (method, path, body) in CASES.items():
            if not wanted(name):
                continue
            sent = None if body is None else json.dumps(body).encode()
            kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
            who = {"impersonate-user": "bob"} if "bob" in name and "review" in name else {}
            gc.collect()
            await asyncio.sleep(0.3)
            turns.longest_ms = 0.0
            answer = await asyncio.ensure_future(
                api.request(method, path, sent, {"content-type": kind, "accept": "application/json", **who})
            )
            await asyncio.sleep(0.3)
            held_ms = turns.longest_ms
            missed += held_ms > LIMIT_MS
            print(f"{name:36} {answer.status} {held_ms:8.1f} ms{'  !' if held_ms > LIMIT_MS else ''}", flush=True)
    return missed


if __name__ == "__main__":
    parts = sys.argv[1:]
    asyncio.run(main(lambda name: not parts or any(part in name for part in parts)))
