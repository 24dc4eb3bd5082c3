"""A schema becomes stricter under stored objects: told at the start, listed, labelled, mended and deleted with kubectl.

The commands are those of docs/storage.md.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kubectl import Kubectl
from server_process import ServerProcess, environment

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"
PROGRAM = '''\
from oarlock import APIServer, Context, Model, Resource, StoredCollection


class OrderSpec(Model):
    """What the customer wants."""

    item: str
    count: {count} = {default}
    {owner}


class Order(Resource, group="shop.example.com", version="v1"):
    """An order."""

    spec: OrderSpec


class Orders(StoredCollection[Order]):
    def prepare(self, new: Order, old: Order | None, ctx: Context) -> None:
        new.spec.item = new.spec.item.lower()


server = APIServer(serve=[Orders])
'''
ORDERS = """\
apiVersion: shop.example.com/v1
kind: Order
metadata: {name: tea, finalizers: [shop.example.com/paid]}
spec: {item: tea, count: many}
---
apiVersion: shop.example.com/v1
kind: Order
metadata: {name: coffee}
spec: {item: coffee, count: "2"}
"""


def commands(program: str) -> list[list[str]]:
    """What docs/storage.md says to type when a schema changes."""
    section = PAGE.read_text().split("## When a schema changes")[1].split("\n## ")[0]
    return [shlex.split(line) for line in re.findall(rf"^\$ {program} (.+)$", section, re.MULTILINE)]


def test_the_whole_story(tmp_path: Path, kubectl_at: Callable[[ServerProcess], Kubectl]) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    program = folder / "server.py"
    storage = f"sqlite:///{tmp_path / 'oarlock.db'}"
    program.write_text(PROGRAM.format(count="str", default='"1"', owner=""))
    with ServerProcess(tmp_path / "before", program, storage) as before:
        kubectl_at(before)("create", "-f", "-", stdin=ORDERS)
        assert "stored before" not in before.log
    program.write_text(PROGRAM.format(count="int", default="1", owner="owner: str"))
    with ServerProcess(tmp_path / "after", program, storage) as after:
        kubectl = kubectl_at(after)
        (check,) = [words for words in commands("oarlock") if "check" in words]
        for change in ("spec.count is integer (was string)", "spec.owner is required, and has no default"):
            line = f"objects stored before may not fit: orders.shop.example.com v1: {change}; to list them: oarlock "
            assert f"{line}{shlex.join(check[:3])} {program} --storage {storage}" in after.log
        listed = checked(check, tmp_path, storage)
        assert listed.returncode == 1
        lines = listed.stdout.splitlines()
        assert [line.split()[:2] for line in lines[:2]] == [
            ["orders.shop.example.com", f"default/{name}:"] for name in ("coffee", "tea")
        ]
        assert "spec.owner: Required value" in lines[0]
        assert lines[2] == "orders.shop.example.com: 2 of 2 would be refused"

        assert [row[0] for row in kubectl("get", "orders").rows] == ["NAME", "coffee", "tea"]
        label, patch, delete = commands("kubectl")
        assert "labeled" in kubectl(*label).out
        kubectl("annotate", "order", "tea", "by=hand")
        assert kubectl("get", "order", "tea", "-o", "jsonpath={.spec.count}").out == "many"
        refused = kubectl.fails(*patch)
        assert "* spec.count: it is so in the stored object, from before its schema changed: set it in the" in refused
        mend = [word.replace('{"owner": "me"}', '{"owner": "me", "count": 3}') for word in patch]
        assert "patched" in kubectl(*mend).out
        assert kubectl("get", "order", "tea", "-o", "jsonpath={.spec}").out.count("me") == 1
        assert checked(check, tmp_path, storage).stdout.splitlines()[-1].endswith(": 1 of 2 would be refused")

        kubectl("patch", "order", "coffee", "--type=merge", "-p", '{"metadata":{"finalizers":["shop.example.com/x"]}}')
        kubectl("delete", "order", "coffee", "--wait=false")
        assert kubectl("get", "order", "coffee", "-o", "jsonpath={.metadata.deletionTimestamp}").out
        kubectl("patch", "order", "coffee", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert "NotFound" in kubectl.fails("get", "order", "coffee")
        kubectl("patch", "order", "tea", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl(*delete)
        assert checked(check, tmp_path, storage).returncode == 0
    with ServerProcess(tmp_path / "again", program, storage) as again:
        assert "stored before" not in again.log


def checked(words: list[str], folder: Path, storage: str) -> subprocess.CompletedProcess[str]:
    command = [storage if word.startswith("sqlite:") else word for word in words]
    return subprocess.run(
        [sys.executable, "-m", "oarlock", *command],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
