"""What requests for Kubernetes' own kinds cost servers that run already, in turns: µs of CPU of their processes.

python benchmarks/kubernetes_kinds.py PKI kube-apiserver=26443:PID,PID oarlock=27443:PID

PKI is a folder with ca.crt, and admin.crt and admin.key of somebody who may do everything. Of each server its port of
127.0.0.1 is given, and its processes: those of its store too. Connections are kept, four write at a time. Shown is the
least of `ROUNDS`.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.codec.protobuf import decode, envelope
from pods import LEASES, PODS, PROTOBUF, pod

JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
OBJECTS, WRITES, READS, WATCHERS, ROUNDS, CONNECTIONS = 1000, 300, 2000, 50, 3, 4
POD, LEASE = kubernetes_message("core.v1.Pod"), kubernetes_message("coordination.v1.Lease")
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server with 1,000 pods that run, which is asked over a few connections."""

    def __init__(self, pki: Path, name: str, port: int, processes: list[int]) -> None:
        self.name, self._port, self._processes = name, port, processes
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._connections = [self.connection() for _ in range(CONNECTIONS)]
        self._pool = ThreadPoolExecutor(CONNECTIONS)
        self._names = count(time.time_ns())
        self._leases: dict[int, dict[str, Any]] = {}

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=120)

    def cpu_s(self) -> float:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._processes]
        return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS

    def ask(
        self, method: str, path: str, body: Any = None, media: str = JSON, accept: str = PROTOBUF, by: int = 0
    ) -> bytes:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection = self._connections[by]
        connection.request(method, path, data, {"accept": accept, "content-type": media})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 201), (self.name, method, path, answer.status, text[:300])
        return text

    def each(self, numbers: Iterable[int], ask: Callable[[int, int], object]) -> None:
        """Ask for each number over all connections at a time: `ask` is given the number and the connection's."""
        numbers = list(numbers)

        def run(by: int) -> None:
            for number in numbers[by::CONNECTIONS]:
                ask(number, by)

        list(self._pool.map(run, range(CONNECTIONS)))

    def prepare(self) -> None:
        account = {"metadata": {"name": "default", "namespace": "default"}}
        try:
            self.ask("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        except AssertionError:
            pass  # a controller has made it
        self.each(range(OBJECTS), lambda n, by: self.ask("POST", PODS, pod(f"pod-{n}"), by=by))
        self.change(range(OBJECTS))
        spec = {"holderIdentity": "node", "leaseDurationSeconds": 40}
        for number in range(CONNECTIONS):
            lease = {"metadata": {"name": f"node-{number}"}, "spec": spec}
            self._leases[number] = decode(self.ask("POST", LEASES, lease), LEASE)

    def change(self, numbers: Iterable[int], accept: str = JSON) -> None:
        """Tell that pods run, as a kubelet does."""

        def change(number: int, by: int) -> None:
            condition = {"type": "Ready", "status": "True", "message": str(next(self._names))}
            status = {"phase": "Running", "podIP": "10.1.0.5", "conditions": [condition]}
            self.ask("PATCH", f"{PODS}/pod-{number}/status", {"status": status}, STRATEGIC, accept, by)

        self.each(numbers, change)

    def create(self, media: str) -> None:
        names = [f"new-{next(self._names)}" for _ in range(WRITES)]

        def create(number: int, by: int) -> None:
            made = pod(names[number])
            body = envelope("v1", "Pod", POD.write(made)) if media == PROTOBUF else made
            self.ask("POST", PODS, body, media, media, by)

        self.each(range(WRITES), create)

    def remove_new(self) -> None:
        self.ask("DELETE", f"{PODS}?labelSelector=app%3Dweb&fieldSelector=status.phase%3DPending&gracePeriodSeconds=0")

    def beat(self, number: int, by: int) -> None:
        """Renew a lease, as a kubelet does."""
        lease = self._leases[by]
        lease["spec"]["renewTime"] = f"2026-11-28T07:00:00.{number:06d}Z"
        body = envelope("coordination.k8s.io/v1", "Lease", LEASE.write(lease))
        self._leases[by] = decode(self.ask("PUT", f"{LEASES}/node-{by}", body, PROTOBUF, by=by), LEASE)

    def watched(self) -> None:
        """Changes that 50 watchers are told."""
        version = json.loads(self.ask("GET", f"{PODS}?limit=1", accept=JSON))["metadata"]["resourceVersion"]
        watches = [self.connection() for _ in range(WATCHERS)]
        for watch in watches:
            watch.request("GET", f"{PODS}?watch=1&resourceVersion={version}", headers={"accept": PROTOBUF})
        answers = [watch.getresponse() for watch in watches]
        with ThreadPoolExecutor(WATCHERS) as pool:
            readers = [pool.submit(lambda answer=answer: [_frame(answer) for _ in range(WRITES)]) for answer in answers]
            self.change(range(WRITES), PROTOBUF)
            for reader in readers:
                reader.result()
        for watch in watches:
            watch.close()


def _frame(answer: http.client.HTTPResponse) -> bytes:
    return answer.read(int.from_bytes(answer.read(4), "big"))


def us(server: Server, times: int, run: Callable[[], object]) -> float:
    began = server.cpu_s()
    run()
    time.sleep(0.3)  # what goes on after the answers counts too
    return (server.cpu_s() - began) / times * 1e6


def measured(server: Server) -> dict[str, float]:
    """Each operation, once."""

    def repeat(times: int, method: str, path: str, accept: str) -> float:
        return us(server, times, lambda: [server.ask(method, path, accept=accept) for _ in range(times)])

    def reads(accept: str) -> float:
        get = lambda n, by: server.ask("GET", f"{PODS}/pod-{n % OBJECTS}", accept=accept, by=by)  # noqa: E731
        return us(server, READS, lambda: server.each(range(READS), get))

    found = {}
    server.change(range(OBJECTS))
    found["LIST of 1,000 pods that have changed, protobuf"] = repeat(1, "GET", PODS, PROTOBUF)
    found["LIST of 1,000 pods, protobuf"] = repeat(20, "GET", PODS, PROTOBUF)
    found["LIST of 1,000 pods, JSON"] = repeat(20, "GET", PODS, JSON)
    found["page of 500, protobuf"] = repeat(20, "GET", f"{PODS}?limit=500", PROTOBUF)
    found["GET pod, protobuf"], found["GET pod, JSON"] = reads(PROTOBUF), reads(JSON)
    for media, name in ((PROTOBUF, "protobuf"), (JSON, "JSON")):
        found[f"POST pod, {name}"] = us(server, WRITES, lambda media=media: server.create(media))
        server.remove_new()
    changes = us(server, WRITES, lambda: server.change(range(WRITES), PROTOBUF))
    found["PATCH pods/status, protobuf answer"] = changes
    told = us(server, WRITES, server.watched)
    found["the same with 50 watchers, for each event, protobuf"] = told / WATCHERS
    found["PUT lease, protobuf"] = us(server, WRITES, lambda: server.each(range(WRITES), server.beat))
    return found


def main() -> None:
    servers = []
    for argument in sys.argv[2:]:
        name, _, where = argument.partition("=")
        port, _, processes = where.partition(":")
        servers.append(Server(Path(sys.argv[1]), name, int(port), [int(pid) for pid in processes.split(",")]))
    for server in servers:
        server.prepare()
    rounds = [[measured(server) for server in servers] for _ in range(ROUNDS)]
    print("| operation | " + " | ".join(server.name for server in servers) + " |")
    for operation in rounds[0][0]:
        figures = [min(turn[at][operation] for turn in rounds) for at in range(len(servers))]
        print(f"| {operation} | " + " | ".join(f"{figure:,.0f}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
