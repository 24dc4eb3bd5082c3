"""The same requests to our own server, and to kube-apiserver with the definitions and webhooks of the same classes.

    tools/compare_homes.py --binaries DIR

DIR has kube-apiserver; etcd is on the path. Prints every request that the two answer otherwise (code, causes, field
paths, warnings, stored objects), and ends with 1 if one of them isn't known. Everything listens on 127.0.0.1 and stops
with the tool. The same comparison with a control plane of ours is a test.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

from home_requests import DIFFERENT, WRECK, WRECKS, all_told, all_told_over_http  # noqa: E402 (found on the path above)
from real_control_plane import Api, Files, free_port, running, server_command  # noqa: E402
from webhook_home import GROUP, harbour, objects_of  # noqa: E402

from oarlock.apps.webhooks.server import WebhookServer, reviewed  # noqa: E402
from oarlock.client.http_transport import connect  # noqa: E402
from oarlock.net.trust import trusting  # noqa: E402
from oarlock.testing import InMemory  # noqa: E402
from oarlock.testing.client import HTTPClient  # noqa: E402
from oarlock.testing.thread import ServerThread  # noqa: E402

DEADLINE_S = 60.0
BERTHS = f"/apis/{GROUP}/v1/namespaces/default/berths"


async def of_our_own() -> dict[str, Any]:
    """What our own server answers."""
    async with InMemory(harbour()) as api:
        return await all_told(api)


def install(client: HTTPClient, webhooks: ServerThread) -> None:
    """Create definitions and configurations, and wait until all of it is in force."""
    ca = base64.b64encode(webhooks.ca.read_bytes()).decode()
    for tree in objects_of(harbour(), lambda path: {"url": f"{webhooks.url}{path}", "caBundle": ca}):
        made = client.post(f"/apis/{tree['apiVersion']}/{tree['kind'].lower()}s", tree)
        assert made.status == 201, made.json
    until(lambda: client.post(WRECKS, WRECK).status in (201, 409))
    ship = {"apiVersion": f"{GROUP}/v1", "kind": "Berth", "metadata": {"name": "x"}, "spec": {"ship": "titanic"}}
    until(lambda: client.post(f"{BERTHS}?dryRun=All", ship).status == 403)


def until(holds: Any) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > end:
            sys.exit("the definitions or the webhooks don't come into force")
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True)
    options = parser.parse_args()
    own = asyncio.run(of_our_own())
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files, port = Files(directory), free_port()
        store, peer = f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port + 2}"
        etcd = ["etcd", f"--data-dir={files['etcd']}", f"--listen-client-urls={store}"]
        etcd += [f"--advertise-client-urls={store}", f"--listen-peer-urls={peer}"]
        etcd += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        stack.enter_context(running("etcd", etcd, directory / "etcd.log"))
        command = server_command("kube-apiserver", options.binaries, files, port)
        process = stack.enter_context(running("kube-apiserver", command, directory / "server.log"))
        url = f"https://127.0.0.1:{port}"
        Api(url, files).wait_until_ready(process)
        server, config = harbour(), files.kubeconfig("admin", url)
        code = server.user_code
        webhooks = WebhookServer(
            resources=reviewed(server.catalog.resources), code=code, connect=lambda: connect(config)
        )
        thread = stack.enter_context(ServerThread(webhooks))
        client = HTTPClient(url, trusting(file=Path(files["ca.crt"])), "admin-token")
        install(client, thread)
        cluster = all_told_over_http(client)
    differ = [name for name in own if own[name] != cluster[name]]
    for name in differ:
        known = DIFFERENT.get(name)
        print(f"{name}: {known}" if known else json.dumps({name: [own[name], cluster[name]]}, indent=1))
    print(f"{len(own)} requests, {len(differ)} answered otherwise, {len(DIFFERENT)} of which are known")
    return 0 if set(differ) <= set(DIFFERENT) else 1


if __name__ == "__main__":
    sys.exit(main())
