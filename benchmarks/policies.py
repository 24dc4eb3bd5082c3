"""What do policies in CEL cost a write, and how long does one that spends its whole budget hold the event loop?

Microseconds of CPU that a CREATE of a ConfigMap costs more with ten ValidatingAdmissionPolicies, each of three
validations: where they are about it, and where they are about another resource; and with a MutatingAdmissionPolicy,
that adds labels by an apply configuration or by a JSON patch. Then how long the event loop works at most between two
beats, in milliseconds of its CPU, while a write is judged, or changed, by what costs all it may.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from typing import Any

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.server.assembly.lifecycle import THREAD_SWITCH_S
from oarlock.testing import InMemory

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
VALIDATIONS = (
    "object.data.color in ['red', 'green', 'blue']",
    "object.metadata.name.startsWith('bench')",
    "!has(object.metadata.labels) || object.metadata.labels.all(k, k.size() < 60)",
)
COSTLY = {
    "texts": "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))",
    "quantities": "object.data.all(a, object.data.all(b, object.data.all(c, quantity('1Mi').asInteger() > 0)))",
    "addresses": "object.data.all(a, object.data.all(b, object.data.all(c, ip('192.168.0.1').family() == 4)))",
}
LABELS = "{'team': 'a', 'by': request.userInfo.username}"
MUTATIONS: dict[str, list[dict[str, Any]]] = {
    "an apply configuration": [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": f"Object{{metadata: Object.metadata{{labels: {LABELS}}}}}"},
        }
    ],
    "a JSON patch": [
        {
            "patchType": "JSONPatch",
            "jsonPatch": {
                "expression": "[JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'a'}, "
                "JSONPatch{op: 'add', path: '/metadata/labels/by', value: request.userInfo.username}]"
            },
        }
    ],
}
COSTLY_MUTATION = {
    "patchType": "JSONPatch",
    "jsonPatch": {
        "expression": "object.data.map(a, object.data.map(b, object.data.map(c, a + b + c))).map(v, "
        "JSONPatch{op: 'add', path: '/data/x', value: string(v.size())})"
    },
}
POLICIES, WRITES, ROUNDS = 10, 300, 5
BEAT_S = 0.0005


async def policy(api: InMemory, name: str, resource: str, *expressions: str) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]
    validations = [{"expression": one} for one in expressions]
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": rules}, "validations": validations}
    made = await api.post(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.json
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    assert (await api.post(f"{GROUP}/validatingadmissionpolicybindings", bound)).status == 201


async def mutating_policy(api: InMemory, name: str, mutations: list[dict[str, Any]]) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never", "mutations": mutations}
    made = await api.post(f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.json
    bound = {"metadata": {"name": name}, "spec": {"policyName": name}}
    assert (await api.post(f"{GROUP}/mutatingadmissionpolicybindings", bound)).status == 201


async def write_us(resource: str = "", mutations: list[dict[str, Any]] | None = None) -> float:
    """The CPU of a create with policies about `resource`, without any if that is empty, and perhaps one that changes
    what is created."""
    async with InMemory(ControlPlane(disable=["controllers"])) as api:
        for number in range(POLICIES if resource else 0):
            await policy(api, f"p{number}", resource, *VALIDATIONS)
        if mutations:
            await mutating_policy(api, "mutation", mutations)
        taken = []
        for part in range(ROUNDS):
            gc.collect()
            began = time.process_time()
            for number in range(WRITES):
                body = {"metadata": {"name": f"bench-{part}-{number}", "labels": {"a": "b"}}, "data": {"color": "red"}}
                answer = await api.post(MAPS, body)
                assert answer.status == 201
                assert len(answer.json["metadata"]["labels"]) == (3 if mutations else 1)
            taken.append((time.process_time() - began) / WRITES * 1e6)
        return min(taken)


async def pause_ms(expression: str) -> tuple[float, float]:
    """How long the loop works at a time while a policy is asked, and how long the write takes, in milliseconds.

    Without an expression it is the policy whose mutations cost too much.
    """
    async with InMemory(ControlPlane(disable=["controllers"])) as api:
        if expression:
            await policy(api, "costly", "configmaps", *[expression] * 3)
        else:
            await mutating_policy(api, "costly", [COSTLY_MUTATION] * 3)
        longest, beating = 0.0, True

        async def beats() -> None:
            nonlocal longest
            before = time.thread_time()
            while beating:
                await asyncio.sleep(BEAT_S)
                now = time.thread_time()
                longest, before = max(longest, now - before), now

        heart = asyncio.ensure_future(beats())
        began = time.perf_counter()
        body = {"metadata": {"name": "a"}, "data": {f"k{number}": "v" for number in range(300)}}
        answer = await api.post(MAPS, body)
        took = time.perf_counter() - began
        assert answer.status == (422 if expression else 403), answer.json
        assert expression or "cost limit exceeded" in answer.json["message"], answer.json
        beating = False
        await heart
        return longest * 1e3, took * 1e3


async def main() -> None:
    sys.setswitchinterval(THREAD_SWITCH_S)  # as a server does
    without = await write_us()
    print(f"CREATE without policies: {without:.0f} µs of CPU")
    for resource, what in (("secrets", "about another resource"), ("configmaps", "that match")):
        cost = await write_us(resource)
        print(f"with {POLICIES} policies {what}: {cost - without:+.0f} µs", flush=True)
    for what, mutations in MUTATIONS.items():
        cost = await write_us(mutations=mutations)
        print(f"with a policy that adds two labels by {what}: {cost - without:+.0f} µs", flush=True)
    for name, expression in {**COSTLY, "mutations": ""}.items():
        pauses = [await pause_ms(expression) for _ in range(3)]
        held = statistics.median(one[0] for one in pauses)
        took = statistics.median(one[1] for one in pauses)
        print(f"a whole budget of {name}: the loop works for {held:.1f} ms at a time, the write takes {took:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
