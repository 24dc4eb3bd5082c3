"""A real session with the wardle example, shown as it happens: ``make demo``.

Starts the server on SQLite in a temporary folder, talks to it with kubectl where there is one and over plain
HTTPS where there is none, and stops it. With kubectl, a control plane follows, in a few commands. The exit code is 0
only when every step passed.
"""

from __future__ import annotations

import base64
import http.client
import json
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[1]
START_S = 30
STEP_S = 20
FLUNDERS = "/apis/wardle.example.com/v1beta1/namespaces/default/flunders"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
FLUNDER = """\
apiVersion: wardle.example.com/v1beta1
kind: Flunder
metadata:
  name: my-first-flunder
  labels: {sample-label: "true"}
spec:
  referenceType: Flunder
  flunderReference: another-flunder
"""
REFUSED = """\
apiVersion: wardle.example.com/v1beta1
kind: Flunder
metadata:
  name: confused
spec:
  flunderReference: one
  fischerReference: another
"""


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {sails: {type: integer, minimum: 1}}
"""
SHIP = """\
apiVersion: sea.example.com/v1
kind: Ship
metadata: {name: wardle, namespace: harbour}
sails: 3
"""


NEXT = """
All steps passed. Try next, after `. .venv/bin/activate`:

  oarlock serve examples/wardle/server.py   the same server; objects stay after a restart
  oarlock up --nodes 3 --console            a control plane with simulated nodes, and a web page for it
  docs/getting-started.md                   a kind of your own, in one file
  docs/projects.md                          a project with tests and an image, in a minute
"""


class Failed(Exception):
    """A step failed."""


def say(text: str) -> None:
    print(text, flush=True)


def step(text: str) -> None:
    say(f"\n# {text}")


def expect(answer: str, *parts: str) -> None:
    for part in parts:
        if part not in answer:
            raise Failed(f"expected {part!r} in this answer:\n{answer}")


class Client(Protocol):
    """What the session needs of a client; each method shows what it does and returns the answer.

    `watch` starts watching; what it returns reads until a line with the given text, and returns that line.
    """

    def discover(self) -> str: ...
    def create(self, file: Path) -> str: ...
    def refused(self, file: Path) -> str: ...
    def table(self) -> str: ...
    def watch(self) -> Callable[[str], str]: ...
    def change(self) -> str: ...
    def delete(self) -> str: ...
    def stop(self) -> None: ...


class Kubectl:
    """The session as kubectl has it."""

    def __init__(self, program: str, kubeconfig: Path) -> None:
        self._command = [program, "--kubeconfig", str(kubeconfig)]
        self._folder = kubeconfig.parent
        self._watching: subprocess.Popen[str] | None = None

    def run(self, arguments: str, code: int = 0) -> str:
        say(f"$ kubectl {arguments}")
        command = [*self._command, *shlex.split(arguments)]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=STEP_S, check=False)
        answer = done.stdout + done.stderr
        say(answer.rstrip())
        if done.returncode != code:
            raise Failed(f"kubectl exited with {done.returncode}")
        return answer

    def discover(self) -> str:
        return self.run("api-resources --api-group wardle.example.com")

    def create(self, file: Path) -> str:
        return self.run(f"create -f {file.name}")

    def refused(self, file: Path) -> str:
        return self.run(f"create -f {file.name}", code=1)

    def table(self) -> str:
        return self.run("get flunders --show-labels")

    def watch(self) -> Callable[[str], str]:
        say("$ kubectl get flunders --watch --output-watch-events &")
        arguments = ["get", "flunders", "--watch", "--output-watch-events"]
        self._watching = watching = subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        return lines_until(watching.stdout)

    def change(self) -> str:
        return self.run("label flunders my-first-flunder changed=yes")

    def delete(self) -> str:
        return self.run("delete flunders my-first-flunder")

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.terminate()
            self._watching.wait()


class Plain:
    """The same session over plain HTTPS, with nothing but Python's own client."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._where = urlsplit(cluster["server"]).netloc
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cadata=ca)
        self._watching: http.client.HTTPSConnection | None = None

    def _ask(self, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
        say(f"{method} {path}")
        self._connection = connection = http.client.HTTPSConnection(self._where, context=self._tls, timeout=STEP_S)
        sent = {"Authorization": f"Bearer {self._token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection.request(method, path, body or None, sent)
        return connection.getresponse()

    def _answer(self, method: str, path: str, body: str = "", *, refused: bool = False, **headers: str) -> str:
        response = self._ask(method, path, body, **headers)
        text = response.read().decode()
        say(f"{response.status} {text.rstrip()[:800]}")
        if (response.status >= 400) is not refused:
            raise Failed(f"{method} {path} was answered {response.status}")
        self._connection.close()
        return text

    def discover(self) -> str:
        return self._answer("GET", "/apis/wardle.example.com/v1beta1")

    def create(self, file: Path) -> str:
        created = self._answer("POST", FLUNDERS, file.read_text(), Content_Type="application/yaml")
        return f"{json.loads(created)['metadata']['name']} created"

    def refused(self, file: Path) -> str:
        return self._answer("POST", FLUNDERS, file.read_text(), refused=True, Content_Type="application/yaml")

    def table(self) -> str:
        response = self._ask("GET", FLUNDERS, Accept=TABLE)
        table: dict[str, Any] = json.loads(response.read())
        self._connection.close()
        rows = [[column["name"].upper() for column in table["columnDefinitions"]]]
        for row in table["rows"]:
            labels = row["object"]["metadata"].get("labels", {})
            rows.append([*map(str, row["cells"]), *(f"{key}={value}" for key, value in labels.items())])
        shown = "\n".join("   ".join(row) for row in rows)
        say(shown)
        return shown

    def watch(self) -> Callable[[str], str]:
        response = self._ask("GET", f"{FLUNDERS}?watch=1")
        self._watching = self._connection
        return lines_until(line.decode() for line in response)

    def change(self) -> str:
        patch = '{"metadata":{"labels":{"changed":"yes"}}}'
        path = f"{FLUNDERS}/my-first-flunder"
        changed = self._answer("PATCH", path, patch, Content_Type="application/merge-patch+json")
        return "labeled" if json.loads(changed)["metadata"]["labels"]["changed"] == "yes" else changed

    def delete(self) -> str:
        gone = self._answer("DELETE", f"{FLUNDERS}/my-first-flunder")
        return f'"{json.loads(gone)["details"]["name"]}" deleted'

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.close()


def lines_until(lines: Iterator[str] | Any) -> Callable[[str], str]:
    read = iter(lines)

    def until(text: str) -> str:
        for line in read:
            say(f"  watch: {line.rstrip()[:300]}")
            if text in line:
                return str(line)
        raise Failed(f"the watch ended before it said {text}")

    return until


def session(client: Client, folder: Path) -> None:
    """The steps, and what each must answer."""
    step("What is served?")
    expect(client.discover(), "flunders", "Flunder")
    step("An object, from YAML")
    expect(client.create(shown(folder / "flunder.yaml", FLUNDER)), "my-first-flunder", "created")
    step("One that breaks a rule is refused, field by field")
    expect(client.refused(shown(folder / "confused.yaml", REFUSED)), "cannot be set with flunderReference")
    step("A table")
    expect(client.table(), "NAME", "my-first-flunder", "sample-label=true")
    step("A watch, while another client changes the object and deletes it")
    seen = client.watch()
    expect(seen("my-first-flunder"), "ADDED")
    expect(client.change(), "labeled")
    expect(seen("MODIFIED"), "my-first-flunder")
    expect(client.delete(), '"my-first-flunder"', "deleted")
    expect(seen("DELETED"), "my-first-flunder")


def shown(file: Path, content: str) -> Path:
    """The file with this content, shown as it is written."""
    file.write_text(content)
    say(f"$ cat {file.name}\n{content.rstrip()}")
    return file


def control_plane(kubectl: Kubectl, folder: Path) -> None:
    """Namespaces, a custom resource, and what becomes of them."""
    expect(kubectl.run("create namespace harbour"), "created")
    shown(folder / "ships.yaml", DEFINITION)
    expect(kubectl.run("apply -f ships.yaml"), "created")
    shown(folder / "ship.yaml", SHIP)
    expect(kubectl.run("apply -f ship.yaml"), "ship.sea.example.com/wardle created")
    step("A user without a role may not list it")
    expect(kubectl.run("get ships --namespace harbour --as somebody", code=1), "cannot list resource")
    step("Deleting the namespace deletes the ship")
    expect(kubectl.run("delete namespace harbour"), "deleted")


def wardle(folder: Path) -> AbstractContextManager[Path]:
    """The sample server of Kubernetes."""
    example = Path("examples", "wardle", "server.py")
    step(f"The sample server of Kubernetes, in Python: {example}, served from the empty folder {folder}")
    return served(folder, "wardle", "serve", example)


@contextmanager
def served(folder: Path, name: str, *words: str | Path) -> Iterator[Path]:
    """A server, on a free port; the kubeconfig it wrote."""
    kubeconfig = folder / f"{name}.kubeconfig"
    options = ["--storage", f"sqlite:///{name}.db", "--secure-port", "0"]
    say(f"$ oarlock {shlex.join([*map(str, words), *options])}")
    places = [str(ROOT / word) if isinstance(word, Path) else word for word in words]
    command = [sys.executable, "-m", "oarlock", *places, *options]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line.startswith("kubectl"):
            raise Failed(f"the server did not start; it exited with {server.wait(START_S)}")
        say(line.rstrip())
        yield kubeconfig
        step("SIGTERM stops the server")
    finally:
        server.terminate()
        code = server.wait(START_S)
    if code:
        raise Failed(f"the server exited with {code}")
    say("All requests were finished, and the store is closed.")


def main() -> int:
    kubectl = shutil.which("kubectl")
    with tempfile.TemporaryDirectory(prefix="oarlock-demo-") as temporary:
        folder = Path(temporary)
        try:
            with wardle(folder) as kubeconfig:
                client: Client = Kubectl(kubectl, kubeconfig) if kubectl else Plain(kubeconfig)
                try:
                    session(client, folder)
                finally:
                    client.stop()
            if kubectl:
                step("And a control plane: Kubernetes' own kinds, without a cluster")
                with served(folder, "plane", "up") as kubeconfig:
                    control_plane(Kubectl(kubectl, kubeconfig), folder)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            say(f"\nFAILED: {error}")
            return 1
    say(NEXT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
