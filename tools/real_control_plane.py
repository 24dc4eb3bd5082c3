"""Kubernetes' own controller manager and scheduler, and kwok's simulated nodes, on `oarlock up` or on kube-apiserver.

    tools/real_control_plane.py --binaries DIR [--server kube-apiserver] [--nodes 20] -- COMMAND …

DIR has kube-controller-manager, kube-scheduler, kwok and its stages in stages.yaml, and kube-apiserver if that is the
server (with etcd on the path). COMMAND runs with KUBECONFIG set once all nodes are ready; its exit status is the
tool's. At the end the tool prints the CPU seconds and the memory of each process, and the lines of their logs that tell
of warnings and errors. docs/real-cluster.md explains the flags. Everything listens on 127.0.0.1 and stops with the
tool.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
}
READY_S = 120
STOP_S = 20
COMPLAINT = re.compile(r'^[WE]\d{4} |^\S+ \S+ [WEC] |"level":"(WARN|ERROR)"')
NODE = {
    "capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
    "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
}


class Files:
    """What the processes share in one directory: an authority, the key of service accounts, tokens, kubeconfigs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        authority = trustme.CA()
        authority.cert_pem.write_to_path(directory / "ca.crt")
        authority.private_key_pem.write_to_path(directory / "ca.key")
        serving = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1")
        serving.private_key_pem.write_to_path(directory / "serving.key")
        (directory / "serving.crt").write_bytes(b"".join(blob.bytes() for blob in serving.cert_chain_pems))
        key = rsa.generate_private_key(65537, 2048)
        pem = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
        (directory / "sa.key").write_bytes(key.private_bytes(*pem))
        lines = [f'{name}-token,{name},{name},"{group}"' for name, group in USERS.items()]
        (directory / "tokens.csv").write_text("\n".join(lines) + "\n")

    def __getitem__(self, name: str) -> str:
        return str(self.directory / name)

    def kubeconfig(self, user: str, url: str) -> str:
        cluster = {"server": url, "certificate-authority": self["ca.crt"]}
        path = self.directory / f"{user.replace(':', '-')}.kubeconfig"
        tree = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(tree))
        return str(path)


@contextmanager
def running(name: str, command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped at the end. What it prints goes to `log`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as it is installed
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        yield process
    finally:
        print(f"{name}: {usage(process.pid)}", flush=True)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def usage(pid: int) -> str:
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        memory = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except FileNotFoundError:
        return "it has ended already"
    seconds = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return f"{seconds:.2f} s of CPU, {int(memory[1]) // 1024 if memory else 0} MiB"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Api:
    """Requests of the administrator."""

    def __init__(self, url: str, files: Files) -> None:
        self._url = url
        self._context = ssl.create_default_context(cafile=files["ca.crt"])

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=self._context, timeout=30) as response:
            answer: bytes = response.read()
            return answer

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.ask("GET", "/readyz")
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the server doesn't get ready: its log tells why")
                time.sleep(0.2)
            else:
                return

    def make_nodes(self, count: int) -> None:
        """Make nodes that kwok simulates, and wait until all are ready."""
        for number in range(count):
            name = f"node-{number}"
            labels = {"kubernetes.io/hostname": name, "type": "kwok"}
            metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": NODE}
            self.ask("POST", "/api/v1/nodes", node)
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            nodes = json.loads(self.ask("GET", "/api/v1/nodes"))["items"]
            states = [c["status"] for n in nodes for c in n["status"].get("conditions", ()) if c["type"] == "Ready"]
            if states.count("True") == count:
                return
            time.sleep(0.5)
        sys.exit("the nodes don't get ready: the log of kwok tells why")


def server_command(server: str, binaries: Path, files: Files, port: int) -> list[str]:
    oarlock = str(Path(sys.executable).with_name("oarlock"))
    program = [oarlock, "up", f"--cluster-signing-cert-file={files['ca.crt']}"]
    program += [f"--cluster-signing-key-file={files['ca.key']}"]
    program += ["--controllers="] if server == "oarlock" else []
    own = {
        "oarlock": [*program, f"--storage=sqlite:///{files['store.db']}"],
        "kube-apiserver": [
            str(binaries / "kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:" + str(port + 1),
            # Before 3.5.13 etcd can't say how far a watch is; clients that begin with a watch try again for ever then.
            "--feature-gates=WatchList=false",
        ],
    }[server]
    return [
        *own,
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files['serving.crt']}",
        f"--tls-private-key-file={files['serving.key']}",
        f"--client-ca-file={files['ca.crt']}",
        f"--token-auth-file={files['tokens.csv']}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={files['sa.key']}",
        f"--service-account-key-file={files['sa.key']}",
        "--service-cluster-ip-range=10.96.0.0/16",
    ]


def client_commands(binaries: Path, files: Files, url: str) -> dict[str, list[str]]:
    manager = files.kubeconfig("system:kube-controller-manager", url)
    scheduler = files.kubeconfig("system:kube-scheduler", url)
    return {
        "kube-controller-manager": [
            str(binaries / "kube-controller-manager"),
            f"--kubeconfig={manager}",
            f"--authentication-kubeconfig={manager}",
            f"--authorization-kubeconfig={manager}",
            f"--root-ca-file={files['ca.crt']}",
            f"--service-account-private-key-file={files['sa.key']}",
            f"--cluster-signing-cert-file={files['ca.crt']}",
            f"--cluster-signing-key-file={files['ca.key']}",
            "--use-service-account-credentials=true",
            "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
            "--allocate-node-cidrs=true",
            "--cluster-cidr=10.244.0.0/16",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
        ],
        "kube-scheduler": [
            str(binaries / "kube-scheduler"),
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
        ],
        "kwok": [
            str(binaries / "kwok"),
            f"--kubeconfig={files.kubeconfig('kwok', url)}",
            f"--config={binaries / 'stages.yaml'}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{free_port()}",
        ],
    }


def complaints(directory: Path) -> None:
    """Print each kind of warning and error in the logs once, with its count."""
    for log in sorted(directory.glob("*.log")):
        found: dict[str, int] = {}
        for line in log.read_text(errors="replace").splitlines():
            if COMPLAINT.search(line):
                text = re.sub(r'^[WE]\d{4} \S+\s+\d+ |^\S+ \S+ |"time":"[^"]*",', "", line)
                found[text[:200]] = found.get(text[:200], 0) + 1
        print(f"{log.stem}: {sum(found.values())} warnings and errors")
        for text, count in found.items():
            print(f"  {count} × {text}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--server", choices=["oarlock", "kube-apiserver"], default="oarlock")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="leave logs and files in this directory")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        files = Files(directory)
        port = free_port()
        url = f"https://127.0.0.1:{port}"
        if options.server == "kube-apiserver":
            client, peer = f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port + 2}"
            etcd = ["etcd", f"--data-dir={files['etcd']}", f"--listen-client-urls={client}"]
            etcd += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
            etcd += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
            stack.enter_context(running("etcd", etcd, directory / "etcd.log"))
        command = server_command(options.server, options.binaries, files, port)
        server = stack.enter_context(running(options.server, command, directory / "server.log"))
        api = Api(url, files)
        api.wait_until_ready(server)
        for name, line in client_commands(options.binaries, files, url).items():
            stack.enter_context(running(name, line, directory / f"{name}.log"))
        api.make_nodes(options.nodes)
        environment = {**os.environ, "KUBECONFIG": files.kubeconfig("admin", url), "SERVER_PID": str(server.pid)}
        status = subprocess.run(options.command, env=environment, check=False).returncode
        complaints(directory)
    return status


if __name__ == "__main__":
    sys.exit(main())
