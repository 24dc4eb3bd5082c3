"""A server in a process of its own, whose loop has a heart: it says how long it stood still.

The child (``python -m support.heart FOLDER PORT``) serves, and answers one line of JSON to each line on its stdin.
`Patient` is its parent's end.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import uvloop

from support.wardle import ROOT, TOKEN, Server, free_port

sys.path.insert(0, str(ROOT))

from examples.wardle.server import server as wardle

from oarlock import APIServer, ListMap, Model, Resource, Spoke, StoredCollection
from oarlock.client.clock import SystemClock
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.schema.crd import parse
from oarlock.server.assembly.lifecycle import serve_until_signal
from oarlock.server.config import ServerConfig

BEAT_S = 0.001


class Entry(Model):
    """One of thousands."""

    name: str
    value: str = ""
    port: int = 0


class LedgerSpec(Model):
    """A list of items with keys, as large objects usually have."""

    entries: Annotated[list[Entry], ListMap("name")] = []  # noqa: RUF012 (an API default, not an attribute)


class Ledger(Resource, group="loop.example.com", version="v1"):
    """An object as large as one wants."""

    spec: LedgerSpec = LedgerSpec()


class OldSpec(Model):
    """The same in other words."""

    rows: Annotated[list[Entry], ListMap("name")] = []  # noqa: RUF012 (an API default, not an attribute)


class OldLedger(Spoke[Ledger], version="v1beta1"):
    """The same in another version."""

    spec: OldSpec = OldSpec()

    def to_hub(self) -> Ledger:
        return Ledger(metadata=self.metadata, spec=LedgerSpec(entries=self.spec.rows))

    @classmethod
    def from_hub(cls, hub: Ledger) -> Self:
        return cls(metadata=hub.metadata, spec=OldSpec(rows=hub.spec.entries))


class Ledgers(StoredCollection[Ledger]):
    """Nothing but what the server does by itself."""


def definition(number: int, note: str = "") -> Served:
    """A resource of about 150 fields, as CustomResourceDefinitions have."""
    field = {"type": "object", "description": f"One of many.{note}", "properties": {}}
    for part in range(12):
        field["properties"][f"part{part}"] = {
            "type": "object",
            "description": "A part of the specification, with a few settings.",
            "properties": {
                f"setting{n}": {"type": "string", "description": "What is set here, in a sentence.", "maxLength": 63}
                for n in range(12)
            },
        }
    names = {"plural": f"kinds{number}", "kind": f"Kind{number}", "singular": f"kind{number}"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": field, "status": field}}},
        "subresources": {"status": {}},
    }
    group = f"group{number % 50}.example.com"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"kinds{number}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    return Served(parse(crd))


# The child ---------------------------------------------------------------------------------------------------------


class Heart:
    """Beats as often as the loop lets it. `cpu_s` is how much of the longest pause this process was working."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.rest()
        self._beat()

    def rest(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self._last = time.perf_counter(), time.process_time()

    def _beat(self) -> None:
        now = time.perf_counter(), time.process_time()
        wall, cpu = (after - before for after, before in zip(now, self._last, strict=True))
        self.wall_s = max(self.wall_s, wall - BEAT_S)
        self.cpu_s = max(self.cpu_s, min(wall - BEAT_S, cpu))
        self._last = now
        self._loop.call_later(BEAT_S, self._beat)


class ObservedServer(ABC):
    """The output of a server that tells a parent, line by line, how long its loop was held.

    A subclass adds commands of its own. A line from the parent is a command and its arguments; each is answered with
    one line of JSON.
    """

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.changes = 0

    def greeting(self) -> dict[str, float]:
        """What the parent is told when the server is ready."""
        return {}

    @abstractmethod
    async def command(self, word: str, *arguments: str) -> None:
        """Carry out a command and `say` its answer."""

    def print_message(self, line: str) -> None:  # noqa: B027 (nothing is shown while it starts)
        pass

    def print_result(self, line: str) -> None:
        """The server is ready."""
        self.heart = Heart()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._asked)
        self.say(self.greeting())

    def _asked(self) -> None:
        words = sys.stdin.readline().split()
        if not words:
            return
        if words[0] == "rest":
            self.heart.rest()
            self.say({})
        elif words[0] == "held":
            self.say({"wall_ms": self.heart.wall_s * 1e3, "cpu_ms": self.heart.cpu_s * 1e3})
        else:
            self._task = asyncio.get_running_loop().create_task(self.command(*words))

    @staticmethod
    def say(answer: dict[str, float]) -> None:
        print(json.dumps(answer), flush=True)


class _Child(ObservedServer):
    def __init__(self, server: APIServer) -> None:
        super().__init__(server)
        self._entries = tuple(server.catalog.entries)
        self._definitions: list[Served] = []

    async def command(self, word: str, *arguments: str) -> None:
        count, how = arguments
        if how == "anew":
            self._definitions = [definition(n) for n in range(int(count))]
        else:
            self.changes += 1
            self._definitions[0] = definition(0, f" Changed {self.changes} times.")
        self.heart.rest()
        await self.server.replace(Catalog.of((*self._entries, *self._definitions)))
        self.say({})


def main() -> None:
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    server = APIServer(serve=[*wardle.catalog.entries, Ledgers, OldLedger])
    config = ServerConfig(secure_port=port, storage=sys.argv[3], data_dir=folder, token_auth_file=folder / "tokens.csv")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_signal(server, config, SystemClock(), _Child(server)))


# The parent --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """How long the loop was held at most: by the clock, and as far as this process was working meanwhile."""

    wall_ms: float
    cpu_ms: float


class Patient:
    """A server under observation."""

    def __init__(self, process: subprocess.Popen[str], server: Server, greeting: dict[str, Any]) -> None:
        self._process = process
        self.greeting = greeting
        self.server = server
        self._tls = server.tls("http/1.1")

    def tell(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def rest(self) -> None:
        self.tell("rest")

    def held(self) -> Held:
        time.sleep(3 * BEAT_S)  # a beat that is overdue counts
        return Held(**self.tell("held"))

    def ask(self, method: str, path: str, body: bytes = b"", media: str = "", **headers: str) -> tuple[int, bytes]:
        """One request, on a connection of its own."""
        url = f"https://localhost:{self.server.port}{path}"
        given = {"authorization": f"Bearer {TOKEN}", "user-agent": "bench/1", "accept": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            given["content-type"] = media or "application/json"
        request = urllib.request.Request(url, body or None, given, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def patient(storage: str = "memory://", child: str = "support.heart", *arguments: str) -> Iterator[Patient]:
    """Start a server with a heart, which `child` is the module of; stop it by its pid."""
    with tempfile.TemporaryDirectory(prefix="oarlock-bench-") as temporary:
        folder = Path(temporary)
        (folder / "tokens.csv").write_text(f'{TOKEN},bench,bench,"system:masters"\n')
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", child, temporary, str(port), storage, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        )
        try:
            assert process.stdout is not None
            greeting = process.stdout.readline()
            if not greeting:
                sys.exit("the server did not start")
            yield Patient(process, Server(process.pid, port, folder, 0.0), json.loads(greeting))
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
