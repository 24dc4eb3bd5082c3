"""Starts a control plane with two simulated nodes, and this server behind it. Ctrl-C stops both.

python -m metrics.start

The control plane keeps its data in the working directory, the server behind it in the folder `behind`.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from oarlock import errors
from oarlock.client import ClientConfigError, TransportError, connect

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
FRONT, BEHIND = 6443, 7443
SERVICE, NAMESPACE = "metrics", "kube-system"
KUBECONFIG = Path("oarlock.kubeconfig")
BEGIN_S = 120.0

UP = ("up", "--nodes=2", f"--secure-port={FRONT}")
SERVE = (
    "serve",
    str(Path(__file__).with_name("server.py")),
    f"--secure-port={BEHIND}",
    "--storage=sqlite:///behind/oarlock.db",
    f"--kubeconfig={KUBECONFIG}",
    f"--authentication-kubeconfig={KUBECONFIG}",
    f"--authorization-kubeconfig={KUBECONFIG}",
    f"--serving-certificate-secret={NAMESPACE}/{SERVICE}-certificate",
    f"--tls-san={SERVICE}.{NAMESPACE}.svc",
)


def api_service() -> dict[str, Any]:
    """What tells the control plane who answers. The server behind it adds the authority of its certificate."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{VERSION}.{GROUP}",
            "annotations": {"oarlock.dev/url": f"https://127.0.0.1:{BEHIND}"},
        },
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": {"name": SERVICE, "namespace": NAMESPACE},
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
        },
    }


async def register() -> None:
    """Apply the APIService, once the control plane answers."""
    while True:
        with contextlib.suppress(ClientConfigError, TransportError, errors.StatusError):
            async with connect(KUBECONFIG, timeout_s=5) as client:
                await client.apply(api_service(), field_manager="metrics", force=True)
                return
        await asyncio.sleep(0.2)


async def available() -> None:
    """Wait until the control plane has reached the server behind it."""
    async with connect(KUBECONFIG) as client:
        async for event in client.watch("apiregistration.k8s.io/v1/APIService"):
            found = event.object
            if found["metadata"]["name"] == api_service()["metadata"]["name"]:
                conditions = found.get("status", {}).get("conditions", [])
                if any(one["type"] == "Available" and one["status"] == "True" for one in conditions):
                    return


async def main() -> None:
    running = []
    environment = {**os.environ, "KUBECONFIG": str(KUBECONFIG)}
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        running.append(await asyncio.create_subprocess_exec(sys.executable, "-m", "oarlock", *UP))
        await asyncio.wait_for(register(), BEGIN_S)
        running.append(await asyncio.create_subprocess_exec(sys.executable, "-m", "oarlock", *SERVE, env=environment))
        await asyncio.wait_for(available(), BEGIN_S)
        print(f"both are ready: kubectl --kubeconfig {KUBECONFIG} top nodes", flush=True)
        ends = [asyncio.create_task(process.wait()) for process in running]
        await asyncio.wait([*ends, asyncio.create_task(stopped.wait())], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for process in reversed(running):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await process.wait()


if __name__ == "__main__":
    Path("behind").mkdir(exist_ok=True)
    asyncio.run(main())
