"""``kubectl scale``: it patches ``/scale`` when told how many, and reads and updates it when told from how many."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

CREW = """\
apiVersion: crews.example.com/v1
kind: Crew
metadata: {name: eight}
spec: {rowers: 2}
"""


@pytest.fixture(scope="session")
def crews(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "crews" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("crews"), program, "memory://") as server:
        yield server


@pytest.fixture
def kubectl_of_crews(kubectl_at: Callable[[ServerProcess], Kubectl], crews: ServerProcess) -> Kubectl:
    return kubectl_at(crews)


def test_scale(kubectl_of_crews: Kubectl, namespace: str) -> None:
    kubectl = kubectl_of_crews
    kubectl("create", "-n", namespace, "-f", "-", stdin=CREW)

    def rowers() -> str:
        return kubectl("get", "crew", "eight", "-n", namespace, "-o", "jsonpath={.spec.rowers}").out

    said = kubectl("scale", "crew", "eight", "-n", namespace, "--replicas=4")
    assert said.lines == ["crew.crews.example.com/eight scaled"]
    assert rowers() == "4"
    kubectl("scale", "crew/eight", "-n", namespace, "--current-replicas=4", "--replicas=8")
    assert rowers() == "8"
    wrong = kubectl.fails("scale", "crew/eight", "-n", namespace, "--current-replicas=4", "--replicas=1")
    assert "Expected replicas to be 4, was 8" in wrong
    kubectl("scale", "crew/eight", "-n", namespace, "--replicas=0")
    assert rowers() == "0"
    missing = kubectl.fails("scale", "crew/nine", "-n", namespace, "--replicas=1")
    assert "the server could not find the requested resource" in missing


@pytest.mark.kubectl("1.21")  # and later scale in their own name
def test_who_scales_owns_the_number(kubectl_of_crews: Kubectl, namespace: str) -> None:
    kubectl = kubectl_of_crews
    applied = ("apply", "--server-side", "-n", namespace, "-f", "-")
    kubectl(*applied, stdin=CREW)
    kubectl("scale", "crew", "eight", "-n", namespace, "--replicas=4")
    tree = json.loads(kubectl("get", "crew", "eight", "-n", namespace, "--show-managed-fields", "-o", "json").out)
    (entry,) = (entry for entry in tree["metadata"]["managedFields"] if entry["operation"] == "Update")
    assert (entry["manager"], entry["subresource"]) == ("kubectl", "scale")
    assert entry["fieldsV1"] == {"f:spec": {"f:rowers": {}}}
    assert 'conflict with "kubectl" with subresource "scale" using crews.example.com/v1: .spec.rowers' in kubectl.fails(
        *applied, stdin=CREW
    )


@pytest.mark.kubectl("1.24")  # has --subresource
def test_scale_as_a_table(kubectl_of_crews: Kubectl, namespace: str) -> None:
    kubectl = kubectl_of_crews
    kubectl("create", "-n", namespace, "-f", "-", stdin=CREW)
    rows = kubectl("get", "crew", "eight", "-n", namespace, "--subresource=scale").rows
    assert rows[0] == ["NAME", "DESIRED", "AVAILABLE", "AGE"]
    assert rows[1][:3] == ["eight", "2", "0"]
