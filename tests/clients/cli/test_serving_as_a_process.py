"""``oarlock serve``: what it makes, what it prints, who gets in, how it leaves."""

from __future__ import annotations

import base64
import http.client
import json
import resource
import signal
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from client_certificates import issue_client

from oarlock.server.serving.certificates.serving_pair import ensure_certificates

THINGS = "/apis/test.example.com/v1/namespaces/default/things"


@dataclass
class Client:
    """Reads a kubeconfig as kubectl does."""

    kubeconfig: Path

    def __post_init__(self) -> None:
        config = yaml.safe_load(self.kubeconfig.read_text())
        self.context = config["current-context"]
        cluster = config["clusters"][0]["cluster"]
        self.address = cluster["server"].removeprefix("https://")
        self.token = config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.address, context=self.tls, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, bytes]:
        connection = self.connect()
        headers = {"Content-Type": "application/json"}
        if token != "":
            headers["Authorization"] = f"Bearer {token or self.token}"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, answer


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        pytest.fail(process.stderr.read())
    return line.rstrip()


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(15)


def test_without_options_it_makes_what_it_needs_and_keeps_it(start: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0")
    line = ready(process)
    assert line == "kubectl --kubeconfig oarlock.kubeconfig get things.test.example.com"
    for name in ("oarlock.token", "oarlock.kubeconfig", "pki/ca.key", "pki/tls.key"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600, name
    client = Client(folder / "oarlock.kubeconfig")
    assert client.context == "things"
    made = client.ask("POST", THINGS, {"metadata": {"name": "a"}})
    assert made[0] == 201, made
    assert client.ask("GET", THINGS, token="")[0] == 401
    assert client.ask("GET", THINGS, token="wrong")[0] == 401
    assert client.ask("GET", "/readyz", token="")[0] == 401
    assert stop(process) == 0
    token, authority = (folder / "oarlock.token").read_text(), (folder / "pki" / "ca.crt").read_text()

    process = start("things:server", "--secure-port", "0")
    ready(process)
    again = Client(folder / "oarlock.kubeconfig")
    assert again.ask("GET", f"{THINGS}/a")[0] == 200
    assert (folder / "oarlock.token").read_text() == token
    assert (folder / "pki" / "ca.crt").read_text() == authority
    assert stop(process, signal.SIGINT) == 0


def test_a_second_start_loads_nothing_large_that_it_does_not_need(start: Any, folder: Path) -> None:
    large = ("cryptography", "yaml", "importlib.metadata", "jwt", "aiohttp", "encodings.idna")
    told = f"import atexit, sys\natexit.register(lambda: print([one for one in {large} if one in sys.modules]))\n"
    (folder / "things.py").write_text(told + (folder / "things.py").read_text())
    loaded = []
    for _ in range(2):
        process = start("things.py", "--secure-port", "0")
        ready(process)
        assert Client(folder / "oarlock.kubeconfig").ask("GET", THINGS)[0] == 200
        assert stop(process) == 0
        loaded.append(process.stdout.read().strip())
    assert loaded == ["['cryptography']", "[]"]


def test_a_token_file_and_open_paths(start: Any, folder: Path) -> None:
    (folder / "tokens.csv").write_text('alice-token,alice,u1,"devs"\nroot-token,root,u2,"system:masters"\n')
    files = ("--token-auth-file", "tokens.csv", "--write-kubeconfig", "sub/config", "--anonymous-paths", "/livez")
    process = start("things.py", "--secure-port", "0", "--storage", "memory://", "--anonymous-auth=false", *files)
    assert ready(process) == "kubectl --kubeconfig sub/config get things.test.example.com"
    client = Client(folder / "sub" / "config")
    assert client.token == "root-token"
    assert client.ask("GET", THINGS, token="alice-token")[0] == 200
    assert client.ask("GET", "/livez", token="") == (200, b"ok")
    assert client.ask("GET", "/readyz", token="")[0] == 401
    assert not (folder / "oarlock.token").exists()
    assert not (folder / "oarlock.db").exists()
    status, body = client.ask("GET", "/readyz/poststarthook/serve-catalog")
    assert (status, body) == (200, b"ok")
    assert stop(process) == 0


def test_leaving_ends_watches_cleanly_and_waits_for_nothing_else(start: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0", "--storage", "memory://")
    ready(process)
    client = Client(folder / "oarlock.kubeconfig")
    connection = client.connect()
    connection.request("GET", f"{THINGS}?watch=1", headers={"Authorization": f"Bearer {client.token}"})
    response = connection.getresponse()
    assert response.status == 200
    process.send_signal(signal.SIGTERM)
    assert response.read() == b""  # ended as chunks should: a cut would raise IncompleteRead
    connection.close()
    assert process.wait(15) == 0


def test_readyz_fails_before_anything_is_refused(start: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0", "--storage", "memory://", "--shutdown-delay-duration", "30s")
    ready(process)
    client = Client(folder / "oarlock.kubeconfig")
    assert client.ask("GET", "/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 10
    while client.ask("GET", "/readyz")[0] == 200 and time.monotonic() < until:
        pass
    status, body = client.ask("GET", "/readyz")
    assert status == 500
    assert b"[-]shutdown failed: reason withheld" in body
    assert client.ask("GET", "/livez")[0] == 200
    assert client.ask("GET", THINGS)[0] == 200
    process.send_signal(signal.SIGTERM)  # the second one: at once
    assert process.wait(10) == 128 + signal.SIGTERM


def test_a_store_is_looked_after_while_a_server_runs(start: Any, oarlock: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0", "--storage", "sqlite:///sub.db")
    ready(process)
    client = Client(folder / "sub.kubeconfig")
    for name in ("a", "b"):
        assert client.ask("POST", THINGS, {"metadata": {"name": name}})[0] == 201
    checked = oarlock("storage", "check", "--storage", "sqlite:///sub.db")
    assert (checked.returncode, checked.stdout) == (0, "sqlite:///sub.db: sound\n"), checked.stderr
    compacted = oarlock("storage", "compact", "--storage", "sqlite:///sub.db")
    assert compacted.returncode == 0, compacted.stderr
    assert "compacted at revision" in compacted.stdout
    future = oarlock("storage", "compact", "--storage", "sqlite:///sub.db", "--revision", "1000000")
    assert future.returncode == 1
    assert len(future.stderr.splitlines()) == 1
    assert client.ask("GET", f"{THINGS}/a")[0] == 200
    assert stop(process) == 0


def test_main_is_the_same_command(start: Any, folder: Path) -> None:
    program = (folder / "things.py").read_text() + '\nif __name__ == "__main__":\n    server.main()\n'
    (folder / "program.py").write_text(program)
    process = start("--secure-port", "0", "--storage", "memory://", program=("program.py",))
    assert ready(process).startswith("kubectl ")
    assert stop(process) == 0
    done = subprocess.run(
        [sys.executable, "program.py", "--nope"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) != (0, 0)


def test_a_file_in_a_package_may_import_either_way(start: Any, folder: Path) -> None:
    package = folder / "outer" / "shop" / "api"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("")
    (package / "v1.py").write_text((folder / "things.py").read_text().partition("\nserver =")[0])
    (package.parent / "server.py").write_text(
        "from oarlock import APIServer\nfrom shop.api import v1 as absolute\nfrom .api import v1\n"
        "assert absolute is v1\nserver = APIServer(serve=[v1.Thing])\n"
    )
    process = start("outer/shop/server.py", "--secure-port", "0", "--storage", "memory://")
    assert ready(process).startswith("kubectl ")
    assert stop(process) == 0


def test_requests_are_logged_at_3_without_letting_clients_write_lines(start: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0", "--storage", "memory://", "-v", "3")
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr), daemon=True)
    reader.start()
    ready(process)
    client = Client(folder / "oarlock.kubeconfig")
    assert client.ask("GET", THINGS + '/a"b')[0] == 404
    assert stop(process) == 0
    reader.join(5)
    [line] = [line for line in lines if "oarlock.access" in line]
    assert 'verb="get"' in line
    assert '/things/a\\"b"' in line
    assert "resp=404" in line
    assert client.token not in "".join(lines)


def test_a_store_whose_objects_this_server_cannot_read(oarlock: Any, start: Any, folder: Path) -> None:
    serving = start("things.py", "--secure-port", "0")
    assert serving.stdout.readline()
    serving.terminate()
    assert serving.wait(10) == 0
    newer = (folder / "things.py").read_text().replace('version="v1"', 'version="v2"')
    (folder / "newer.py").write_text(newer)
    done = oarlock("serve", "newer.py", "--secure-port", "0")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "written as v1" in line
    assert "only v2" in line


def test_mistakes_end_the_process_with_one_line(oarlock: Any) -> None:
    for arguments, code in ((("serve", "missing.py"), 1), (("serve", "things.py", "--nope"), 2), (("nope",), 2)):
        done = oarlock(*arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (code, "", 1), done.stderr


def test_a_place_that_cannot_hold_a_store_is_named_before_anything_is_made(oarlock: Any, folder: Path) -> None:
    (folder / "file").write_text("")
    for path, why in (
        ("no/shop.db", "cannot open the store no/shop.db: the directory no doesn't exist: create it first"),
        ("file/shop.db", "cannot open the store file/shop.db: the directory file doesn't exist: create it first"),
        ("pki", "cannot open the store pki: it is a directory; name a file in it"),
    ):
        if path == "pki":
            (folder / "pki").mkdir()
        done = oarlock("serve", "things.py", "--storage", f"sqlite:///{path}")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"oarlock: --storage=sqlite:///{path}: {why}\n"
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["file", "pki", "things.py"]
    assert list((folder / "pki").iterdir()) == []


def test_servers_that_start_first_at_once_on_one_store_let_the_same_client_in(start: Any, folder: Path) -> None:
    kubeconfigs = [folder / f"{name}.kubeconfig" for name in "abc"]
    processes = [start("things.py", "--secure-port", "0", "--write-kubeconfig", file.name) for file in kubeconfigs]
    for process in processes:
        ready(process)
    clients = [Client(file) for file in kubeconfigs]
    assert len({client.token for client in clients}) == 1
    for number, client in enumerate(clients):
        assert client.ask("POST", THINGS, {"metadata": {"name": f"t{number}"}})[0] == 201
    for client in clients:
        client.tls = clients[0].tls
        assert {client.ask("GET", f"{THINGS}/t{number}")[0] for number in range(3)} == {200}
    assert [stop(process) for process in processes] == [0, 0, 0]


def test_a_client_certificate_is_a_credential_and_a_bad_one_is_401(start: Any, folder: Path) -> None:
    now = time.time()
    ensure_certificates(folder / "pki", [], now)
    ensure_certificates(folder / "strangers", [], now)
    for name in ("pki", "strangers"):
        certificate, key = issue_client(folder / name, "alice", ["devs"], now)
        (folder / f"{name}.pem").write_bytes(certificate + key)
    process = start("things.py", "--secure-port", "0", "--storage", "memory://", "--client-ca-file", "pki/ca.crt")
    ready(process)
    client = Client(folder / "oarlock.kubeconfig")
    assert client.ask("GET", THINGS, token="")[0] == 401
    client.tls.load_cert_chain(folder / "pki.pem")
    assert client.ask("GET", THINGS, token="")[0] == 200
    stranger = Client(folder / "oarlock.kubeconfig")
    stranger.tls.load_cert_chain(folder / "strangers.pem")
    status, body = stranger.ask("GET", THINGS, token="")
    assert (status, json.loads(body)["message"]) == (401, "Unauthorized")
    assert stranger.ask("GET", THINGS)[0] == 200  # the token is good whatever the certificate
    assert stop(process) == 0


LIMITED = """
import resource, sys
from oarlock.cli import main
resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
main(["serve", *sys.argv[1:]])
"""


def leave_room(process: subprocess.Popen[str], room: int) -> None:
    """Let the process have only so much more address space than it has now."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))


def test_running_out_of_address_space_costs_writes_and_not_the_process(start: Any, folder: Path) -> None:
    """Without a reserve it ended by SIGSEGV, in a library that doesn't look whether it was given memory."""
    process = start("things.py", "--secure-port", "0", program=("-c", LIMITED))
    ready(process)
    leave_room(process, 60 << 20)
    client = Client(folder / "oarlock.kubeconfig")
    filling = {"annotations": {"filling": "x" * 250_000}}
    for number in range(2000):
        status, body = client.ask("POST", THINGS, {"metadata": {"name": f"t{number}", **filling}})
        if status != 201:
            break
    assert status == 503, body
    assert json.loads(body)["message"] == "the server is low on memory and refuses creates and updates"
    assert client.ask("POST", THINGS, {"metadata": {"name": "one-more", **filling}})[0] == 503
    assert client.ask("GET", f"{THINGS}/t0")[0] == 200
    assert client.ask("DELETE", f"{THINGS}/t0")[0] == 200
    assert client.ask("GET", "/readyz")[0] == 200
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert log.count("address space are left: creates and updates are refused") == 1


def test_a_library_that_breaks_is_named_before_the_process_ends(start: Any, folder: Path) -> None:
    process = start("things.py", "--secure-port", "0", "--storage", "memory://")
    ready(process)
    process.send_signal(signal.SIGSEGV)
    _, log = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in log
    assert "(most recent call first)" in log
