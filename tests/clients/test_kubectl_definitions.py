"""kubectl on a server whose definitions come, change and go: it finds what there is, explains it and uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

pytestmark = pytest.mark.kubectl("1.20")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "definitions.md"


@pytest.fixture(scope="session")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server of the page about definitions at run time."""
    folder = tmp_path_factory.mktemp("definitions")
    found = re.search(r"^```python\n# definitions\.py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    program = folder / "definitions.py"
    program.write_text(found.group(1))
    with ServerProcess(folder / "server", program) as server:
        yield server


def crd(plural: str, group: str, text: str, *columns: str) -> dict[str, Any]:
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].capitalize()}
    colour = {"type": "string", "description": text}
    schema = {"type": "object", "properties": {"colour": colour}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": name, "type": "string", "jsonPath": f".{name}"} for name in columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def definition(plural: str, group: str, text: str = "Its colour.", *columns: str) -> dict[str, Any]:
    return {
        "apiVersion": "definitions.example.com/v1",
        "kind": "Definition",
        "metadata": {"name": f"{plural}.{group}"},
        "crd": json.dumps(crd(plural, group, text, *columns)),
    }


def kite(name: str, group: str, colour: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Kite", "metadata": {"name": name}, "colour": colour}


def test_definitions_come_change_and_go(kubectl_at: Any, definitions: ServerProcess, namespace: str) -> None:
    kubectl: Kubectl = kubectl_at(definitions)
    group = f"{namespace}.example.com"
    kubectl("create", "-f", "-", stdin=definition("kites", group))
    assert f"kites.{group}" in kubectl("api-resources", "-o", "name").lines
    kubectl("create", "-n", namespace, "-f", "-", stdin=kite("a", group, "red"))
    assert kubectl("get", f"kites.{group}", "-n", namespace).rows[0] == ["NAME", "AGE"]
    assert "Its colour." in kubectl("explain", "kites.colour", f"--api-version={group}/v1").out

    kubectl("replace", "-f", "-", stdin=definition("kites", group, "What it looks like.", "colour"))
    header, row = kubectl("get", f"kites.{group}", "-n", namespace).rows
    assert (header, row) == (["NAME", "COLOUR"], ["a", "red"])
    assert "What it looks like." in kubectl("explain", "kites.colour", f"--api-version={group}/v1").out
    kubectl("create", "-f", "-", stdin=definition("tops", group))
    assert {f"kites.{group}", f"tops.{group}"} <= {*kubectl("api-resources", "-o", "name").lines}
    patch = json.dumps({"colour": "blue"})
    kubectl("patch", f"kites.{group}", "a", "-n", namespace, "--type=merge", "-p", patch)

    kubectl("delete", "definition", f"kites.{group}")
    assert f"kites.{group}" not in kubectl("api-resources", "-o", "name").lines
    assert "NotFound" in kubectl.fails("get", "--raw", f"/apis/{group}/v1/namespaces/{namespace}/kites/a")
    kubectl("create", "-f", "-", stdin=definition("kites", group))
    assert kubectl("get", f"kites.{group}", "a", "-n", namespace, "-o", "jsonpath={.colour}").out == "blue"
