"""What do RBAC, fairness and audit together add to a GET? In µs of CPU over a server where everybody may do everything.

Audit is at the level Metadata, to a file. Both servers are in this process, without sockets, and take turns, so that
what else the machine does is shared by both. Then: what the server remembers of 10,000 users.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import User
from oarlock.server.assembly.lifecycle import GC_THRESHOLDS
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory

ROUNDS, REQUESTS = 60, 250
USERS = 10_000
NAME = "/api/v1/namespaces/default/configmaps/a"
ALICE = User("alice", groups=("dev", "system:authenticated"))
RBAC = "rbac.authorization.k8s.io"
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
REFERENCE = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
BINDING = {
    "metadata": {"name": "alice"},
    "roleRef": REFERENCE,
    "subjects": [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "many"}],
}


def open_server(**more: object) -> InMemory:
    config = ServerConfig(storage="memory://", **more)  # type: ignore[arg-type]  # options by name
    return InMemory(ControlPlane(), config=config, user=ALICE)


async def cpu_us(api: InMemory) -> float:
    """Of a GET."""
    began = time.process_time()
    for _ in range(REQUESTS):
        answer = await api.get(NAME)
    assert answer.status == 200, answer
    return (time.process_time() - began) / REQUESTS * 1e6


async def main(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY)
    audit = {"audit_policy_file": folder / "policy.yaml", "audit_log_path": folder / "audit.log"}
    rbac = {"authorization_mode": ("RBAC",)}
    kinds = {
        "RBAC": open_server(**rbac, enable_priority_and_fairness=False),
        "fairness": open_server(authorization_mode=("AlwaysAllow",), enable_priority_and_fairness=True),
        "audit": open_server(authorization_mode=("AlwaysAllow",), enable_priority_and_fairness=False, **audit),
        "all three": open_server(**rbac, enable_priority_and_fairness=True, **audit),
    }
    async with open_server(authorization_mode=("AlwaysAllow",), enable_priority_and_fairness=False) as free:
        await prepare(free)
        for name, api in kinds.items():
            async with api:
                await prepare(api)
                gc.collect()  # as a server does when it starts
                gc.freeze()
                gc.set_threshold(*GC_THRESHOLDS)
                base, whole = [], []
                for _ in range(ROUNDS):
                    base.append(await cpu_us(free))
                    whole.append(await cpu_us(api))
                # other processes make rounds dearer, never cheaper
                alone, together = (statistics.quantiles(times, n=10)[0] for times in (base, whole))
                print(f"{name:12} {together - alone:6.1f} µs more than {alone:.1f} µs")
                if name == "all three":
                    await many_users(api)


async def prepare(api: InMemory) -> None:
    client = api.client()
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, namespace="default")
    await client.create({"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", **BINDING}, namespace="default")
    for _ in range(200):
        if (await api.get(NAME)).status == 200:
            return
        await asyncio.sleep(0.01)


async def many_users(api: InMemory) -> None:
    """Each of so many users asks once; then twice as many others do."""
    await api.client().create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "may-be-others"},
            "roleRef": {**REFERENCE, "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "alice"}],
        }
    )
    sizes = []
    tracemalloc.start()
    for part in range(3):
        for number in range(USERS):
            headers = {"impersonate_user": f"user-{part}-{number}", "impersonate_group": "many"}
            assert (await api.get(NAME, **headers)).status == 200
        sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)
    told = ", ".join(f"{size:.1f}" for size in sizes)
    print(f"memory after 10,000, 20,000 and 30,000 users: {told} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROUNDS = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
