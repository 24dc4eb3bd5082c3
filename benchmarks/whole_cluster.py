"""A cluster of 50 simulated nodes: a Deployment of 300 replicas is made, rolled, scaled and deleted.

python benchmarks/whole_cluster.py [--binaries DIR [--only]] [--replicas 300] [--nodes 50]

Ours is one process, `oarlock up --nodes`. With `--binaries` Kubernetes' own follow: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler and kwok, found as `tools/real_control_plane.py` finds them; `--only` leaves
ours out. Shown are seconds from the start to the first ready pod, wall and CPU seconds of each step, of all processes
together, and the sum of the most memory that each has had. The client that watches isn't counted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from real_control_plane import Api, Files, client_commands, free_port, running, server_command  # noqa: E402

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
LOOK_S = 0.05
LONGEST_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


class System:
    """The processes of one side, started, with what they use."""

    def __init__(self, name: str) -> None:
        self.name, self.began = name, time.monotonic()
        self.processes: list[int] = []
        self.api: Any = None
        self.figures: dict[str, tuple[float, float]] = {}
        self.first_ready_s = 0.0

    def cpu_s(self) -> float:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.processes]
        return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS

    def memory_mib(self) -> float:
        found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in self.processes]
        return sum(int(each[1]) for each in found if each) / 1024

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.api.ask(method, path, body))

    def patch(self, path: str, body: object) -> None:
        headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(self.api._url + path, json.dumps(body).encode(), headers, method="PATCH")
        with urllib.request.urlopen(request, context=self.api._context, timeout=30) as answer:
            answer.read()

    def step(self, name: str, do: Callable[[], object], done: Callable[[], bool]) -> None:
        """One step: its seconds, and the CPU until all is done."""
        began, cpu = time.monotonic(), self.cpu_s()
        do()
        wait(done)
        wall = time.monotonic() - began
        print(f"{name}: {wall:.1f} s", file=sys.stderr, flush=True)
        self.figures[name] = wall, self.cpu_s() - cpu


def wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST_S
    while not done():
        if time.monotonic() > end:
            sys.exit("it takes too long")
        time.sleep(LOOK_S)


def deployment(name: str, replicas: int, image: str = "crane:1") -> dict[str, Any]:
    labels = {"app": name}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "crane", "image": image, "resources": resources, "ports": [{"containerPort": 80}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@contextmanager
def kept_or_temporary(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep


@contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


@contextmanager
def ours(directory: Path, nodes: int) -> Iterator[System]:
    files, port = Files(directory), free_port()
    command = [each for each in server_command("oarlock", Path(), files, port) if each != "--controllers="]
    with ExitStack() as stack:
        system = System("oarlock up --nodes")
        server = stack.enter_context(running("oarlock", [*command, f"--nodes={nodes}"], directory / "server.log"))
        system.processes = [server.pid]
        system.api = Api(f"https://127.0.0.1:{port}", files)
        ready(system, server)
        yield system


@contextmanager
def theirs(directory: Path, binaries: Path, nodes: int) -> Iterator[System]:
    files, port = Files(directory), free_port()
    url, client, peer = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port + 2}"
    with ExitStack() as stack:
        system = System("kube-apiserver and others")
        etcd = ["etcd", f"--data-dir={files['etcd']}", f"--listen-client-urls={client}"]
        etcd += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
        etcd += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        store = stack.enter_context(running("etcd", etcd, directory / "etcd.log"))
        command = server_command("kube-apiserver", binaries, files, port)
        server = stack.enter_context(running("kube-apiserver", command, directory / "server.log"))
        system.api = Api(url, files)
        ready(system, server)
        started = [store, server]
        for name, line in client_commands(binaries, files, url).items():
            started.append(stack.enter_context(running(name, line, directory / f"{name}.log")))
        system.processes = [each.pid for each in started]
        system.api.make_nodes(nodes)
        yield system


def ready(system: System, server: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            system.api.ask("GET", "/readyz")
        except OSError:
            if server.poll() is not None:
                sys.exit("the server doesn't start")
            return False
        return True

    wait(answers)


def scenario(system: System, replicas: int) -> None:
    def status(name: str) -> Any:
        found = system.ask("GET", f"{DEPLOYMENT}/{name}")
        generation = found["metadata"]["generation"]
        return found["status"] if found["status"].get("observedGeneration") == generation else {}

    def has(count: int) -> Callable[[], bool]:
        wanted = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count)
        return lambda: wanted.items() <= status("crane").items()

    def gone() -> bool:
        return not system.ask("GET", f"{PODS}?limit=1")["items"]

    def made() -> bool:
        try:
            system.ask("POST", DEPLOYMENT, deployment("first", 1))
        except OSError:
            return False
        return True

    wait(made)
    wait(lambda: status("first").get("readyReplicas") == 1)
    print("the first pod is ready", file=sys.stderr, flush=True)
    system.first_ready_s = time.monotonic() - system.began
    system.ask("DELETE", f"{DEPLOYMENT}/first", {"propagationPolicy": "Background"})
    wait(gone)
    time.sleep(3)  # leader elections, and what starts late
    where = f"{DEPLOYMENT}/crane"
    system.step("up", lambda: system.ask("POST", DEPLOYMENT, deployment("crane", replicas)), has(replicas))
    template = deployment("crane", replicas, "crane:2")["spec"]["template"]
    system.step("rolled", lambda: system.patch(where, {"spec": {"template": template}}), has(replicas))
    half = replicas // 2
    system.step("scaled to half", lambda: system.patch(where, {"spec": {"replicas": half}}), has(half))
    system.step("scaled up again", lambda: system.patch(where, {"spec": {"replicas": replicas}}), has(replicas))
    system.step("deleted", lambda: system.ask("DELETE", where, {"propagationPolicy": "Background"}), gone)


def show(system: System) -> None:
    wall = sum(each[0] for each in system.figures.values())
    cpu = sum(each[1] for each in system.figures.values())
    steps = ", ".join(f"{name} {wall:.1f} s ({cpu:.1f} s)" for name, (wall, cpu) in system.figures.items())
    print(
        f"{system.name}: first ready pod after {system.first_ready_s:.1f} s; wall {wall:.1f} s, "
        f"CPU {cpu:.1f} s, memory {system.memory_mib():.0f} MiB; wall and CPU of each step: {steps}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path)
    parser.add_argument("--only", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave logs and files in this directory")
    parser.add_argument("--replicas", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=50)
    options = parser.parse_args()
    sides: list[Callable[[Path], Any]] = []
    if not options.only:
        sides.append(lambda directory: ours(directory, options.nodes))
    if options.binaries:
        sides.append(lambda directory: theirs(directory, options.binaries, options.nodes))
    for side in sides:
        with kept_or_temporary(options.keep) as directory, quiet() as silence, side(directory) as system:
            scenario(system, options.replicas)
            with contextlib.redirect_stdout(sys.stderr):
                show(system)
            del silence


if __name__ == "__main__":
    main()
