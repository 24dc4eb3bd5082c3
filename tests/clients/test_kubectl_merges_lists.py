"""``kubectl apply`` and ``patch`` of lists whose items have keys: what others added stays, what was taken out goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

RIG: dict[str, Any] = {
    "apiVersion": "rigs.example.com/v1",
    "kind": "Rig",
    "metadata": {"name": "brig"},
    "spec": {
        "masts": [{"name": "fore", "sails": 4}, {"name": "main", "sails": 5}],
        "flags": [{"name": "blue"}],
        "notes": ["old"],
    },
}


pytestmark = pytest.mark.kubectl("1.27")  # which finds out which patches a server takes


@pytest.fixture(scope="session")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "rigs" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("rigs"), program, "memory://") as server:
        yield server


@pytest.fixture
def here(kubectl_at: Callable[[ServerProcess], Kubectl], rigs: ServerProcess, namespace: str) -> Any:
    kubectl = kubectl_at(rigs)

    def run(*args: str, body: Any = None) -> Any:
        return kubectl(*args, "-n", namespace, **({} if body is None else {"stdin": json.dumps(body)}))

    return run


def spec(here: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here("get", "rig", "brig", "-o", "json").out)["spec"]
    return found


def test_apply_leaves_what_others_added(here: Any) -> None:
    apply = ("apply", "-f", "-")
    here(*apply, body=RIG)
    others = {"spec": {"masts": [{"name": "jigger"}], "flags": [{"name": "red"}], "notes": ["theirs"]}}
    here("patch", "rig", "brig", "-p", json.dumps(others))
    assert sorted(mast["name"] for mast in spec(here)["masts"]) == ["fore", "jigger", "main"]
    assert [flag["name"] for flag in spec(here)["flags"]] == ["red"]

    changed = json.loads(json.dumps(RIG))
    changed["spec"]["masts"] = [{"name": "main", "sails": 6}, {"name": "mizzen", "sails": 2}]
    changed["spec"]["notes"] = ["new"]
    sent = here(*apply, "-v=8", body=changed)
    assert "strategic-merge-patch+json" in sent.err
    assert "configured" in sent.out
    found = spec(here)
    sails = {mast["name"]: mast["sails"] for mast in found["masts"]}
    assert sails == {"main": 6, "mizzen": 2, "jigger": 1}
    assert [name for name in sails if name != "jigger"] == ["main", "mizzen"]
    assert sorted(found["notes"]) == ["new", "theirs"]
    assert [flag["name"] for flag in found["flags"]] == ["blue"]
    here(*apply, body=changed)  # kubectl asks for its order again each time somebody else has items, to no effect
    assert spec(here) == found


def test_a_directive_deletes_an_item(here: Any) -> None:
    here("create", "-f", "-", body=RIG)
    here("patch", "rig", "brig", "-p", '{"spec": {"masts": [{"name": "fore", "$patch": "delete"}]}}')
    assert [mast["name"] for mast in spec(here)["masts"]] == ["main"]
    here("patch", "rig", "brig", "-p", '{"spec": {"$deleteFromPrimitiveList/notes": ["old"]}}')
    assert spec(here).get("notes", []) == []


def test_server_side_apply_leaves_what_others_added(here: Any) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    here(*apply, body=RIG)
    theirs = {**RIG, "spec": {"masts": [{"name": "jigger"}]}}
    here(*apply, "--field-manager=others", body=theirs)
    changed = {**RIG, "spec": {"masts": [{"name": "main", "sails": 6}, {"name": "mizzen"}], "notes": ["new"]}}
    here(*apply, body=changed)
    found = spec(here)
    assert {mast["name"]: mast["sails"] for mast in found["masts"]} == {"main": 6, "mizzen": 1, "jigger": 1}
    assert (found.get("flags", []), found["notes"]) == ([], ["new"])


def test_defaults_are_in_the_document_that_explain_reads(here: Any) -> None:
    # kubectl doesn't show them
    assert "FIELD: sails <integer>" in here("explain", "rig.spec.masts.sails").out
    document = json.loads(here("get", "--raw", "/openapi/v3/apis/rigs.example.com/v1").out)
    mast = document["components"]["schemas"]["com.example.rigs.v1.Mast"]["properties"]
    assert mast["sails"]["default"] == 1
