"""What kubectl chooses by the documents it is given: patches, explanations, and whether a dry run can be had."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubectl import Answer, Kubectl
from server_process import ServerProcess

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
BUOY: dict[str, Any] = {
    "apiVersion": "moorings.example.com/v1",
    "kind": "Buoy",
    "metadata": {"name": "one"},
    "spec": {"lights": [{"name": "top"}]},
}
MOORING: dict[str, Any] = {
    "apiVersion": "moorings.example.com/v1",
    "kind": "Mooring",
    "metadata": {"name": "one", "labels": {"app": "quay"}},
    "spec": {"boats": 2},
}

Here = Callable[..., Answer]


@pytest.fixture
def kubectl(kubectl_at: Callable[[ServerProcess], Kubectl], moorings: ServerProcess) -> Kubectl:
    return kubectl_at(moorings)


@pytest.fixture
def editing(
    which_kubectl: str, moorings: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Kubectl]:
    """kubectl with an editor that needs nobody: a command of sed's. What it leaves behind is in the test's folder."""

    def kubectl(command: str) -> Kubectl:
        monkeypatch.setenv("EDITOR", f"sed -i {command}")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        return Kubectl(which_kubectl, moorings.kubeconfig, tmp_path)

    return kubectl


@pytest.fixture
def here(kubectl: Kubectl, namespace: str) -> Here:
    """Runs kubectl in the test's namespace."""

    def run(command: str, *arguments: str, stdin: object = None) -> Answer:
        return kubectl(command, "-n", namespace, *arguments, stdin=stdin)

    return run


def sent(answer: Answer) -> set[str]:
    """The media types of the patches that were sent; the command was given -v=8."""
    return {kind for kind in (MERGE, STRATEGIC) if f"Content-Type: {kind}" in answer.err}


def changed(tree: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**tree, "spec": {**tree["spec"], **spec}}


@pytest.mark.kubectl("1.27")  # and later find out which patches a server takes
def test_applies_are_strategic_merges_just_where_those_are_served(kubectl: Kubectl, here: Here) -> None:
    for tree, change, patch in (
        (MOORING, {"boats": 3}, STRATEGIC),
        (BUOY, {"lights": [{"name": "top", "colour": "red"}]}, MERGE),
    ):
        here("apply", "-f", "-", stdin=tree)
        answer = here("apply", "-f", "-", "-v=8", stdin=changed(tree, **change))
        assert sent(answer) == {patch}
        assert answer.out.endswith("/one configured\n")
        found = json.loads(here("get", tree["kind"].lower(), "one", "-o", "json").out)
        assert {name: found["spec"][name] for name in change} == change


def test_a_strategic_merge_of_a_custom_resource_is_refused(kubectl: Kubectl, here: Here, namespace: str) -> None:
    here("create", "-f", "-", stdin=BUOY)
    patch = ("patch", "buoy", "one", "-n", namespace, "-p", '{"metadata": {"labels": {"a": "b"}}}')
    told = kubectl.fails(*patch)
    if kubectl.version >= (1, 27):
        assert f"{STRATEGIC} is not supported by moorings.example.com/v1, Kind=Buoy" in told
    assert "the body of the request was in an unknown format - accepted media types include" in told
    assert kubectl(*patch, "--type=merge").out == "buoy.moorings.example.com/one patched\n"


def test_editing_a_custom_resource(editing: Callable[[str], Kubectl], here: Here, namespace: str) -> None:
    here("create", "-f", "-", stdin=BUOY)
    edited = editing("s/white$/red/")("edit", "buoy", "one", "-n", namespace, "-v=8")
    assert sent(edited) == {MERGE}
    assert "buoy.moorings.example.com/one edited\n" in edited.out
    assert here("get", "buoy", "one", "-o", "jsonpath={.spec.lights[0].colour}").out == "red"


@pytest.mark.kubectl("1.24")
def test_editing_the_status(kubectl: Kubectl, editing: Callable[[str], Kubectl], here: Here, namespace: str) -> None:
    here("create", "-f", "-", stdin=MOORING)
    here("patch", "mooring", "one", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Free"}}')
    edited = editing("s/Free/Taken/")("edit", "mooring", "one", "-n", namespace, "--subresource=status")
    assert edited.out == "mooring.moorings.example.com/one edited\n"
    assert here("get", "mooring", "one", "-o", "jsonpath={.status.phase}").out == "Taken"


def test_an_edit_that_is_refused_is_explained(
    editing: Callable[[str], Kubectl], here: Here, namespace: str, tmp_path: Path
) -> None:
    here("create", "-f", "-", stdin=MOORING)
    told = editing("s/anchor$/rope/").fails("edit", "mooring", "one", "-n", namespace)
    assert 'moorings.moorings.example.com "one" is invalid' in told
    why = '# * spec.hold.kind: Unsupported value: "rope": supported values: "anchor", "ring"'
    assert any(why in kept.read_text() for kept in tmp_path.glob("kubectl-edit-*"))
    assert here("get", "mooring", "one", "-o", "jsonpath={.spec.hold.kind}").out == "anchor"


def test_explaining_unions_enums_and_defaults(kubectl: Kubectl, here: Here) -> None:
    union = here("explain", "mooring.spec.hold").out
    assert "What it holds on to: one of these." in union
    anchor = "Object" if kubectl.version < (1, 27) else "Anchor"  # an old one shows no names
    for member in (f"anchor\t<{anchor}>", "kind\t<string>", "ring\t<string>"):
        assert member in union
    assert "-required-" not in union
    deep = here("explain", "mooring.spec", "--recursive").out
    assert "kilograms\t<integer>" in deep
    if kubectl.version >= (1, 28):
        assert "ENUM:\n    anchor\n    ring\n" in here("explain", "mooring.spec.hold.kind").out
        assert "enum: anchor, ring" in deep
    # kubectl shows no defaults: they are in what it reads, and who has one isn't called required
    document = json.loads(here("get", "--raw", "/openapi/v3/apis/moorings.example.com/v1").out)
    spec = document["components"]["schemas"]["com.example.moorings.v1.MooringSpec"]["properties"]
    assert spec["depth"]["default"] == 3
    assert spec["hold"]["default"] == {"kind": "anchor"}
    assert spec["hold"]["x-kubernetes-patch-strategy"] == "retainKeys"
    assert "depth\t<integer>\n" in here("explain", "mooring.spec").out


def test_a_dry_run_of_every_command_changes_nothing(kubectl: Kubectl, here: Here) -> None:
    said = here("create", "--dry-run=server", "-f", "-", stdin=MOORING)
    assert said.out == "mooring.moorings.example.com/one created (server dry run)\n"
    here("apply", "-f", "-", stdin=MOORING)
    before = here("get", "mooring", "one", "-o", "json").out
    body = changed(MOORING, boats=9)
    for command, *arguments in (
        ["apply", "-f", "-"],
        ["apply", "--server-side", "--force-conflicts", "-f", "-"],
        ["replace", "-f", "-"],
        ["patch", "mooring", "one", "--type=merge", "-p", '{"spec": {"boats": 9}}'],
        ["scale", "mooring", "one", "--replicas=9"],
        ["label", "mooring", "one", "new=yes"],
        ["annotate", "mooring", "one", "new=yes"],
        ["delete", "mooring", "one"],
    ):
        said = here(command, *arguments, "--dry-run=server", stdin=body if "-" in arguments else None)
        if kubectl.version >= (1, 32) and command not in ("patch", "scale"):  # before, few commands say so
            assert "(server dry run)" in said.out, command
        assert here("get", "mooring", "one", "-o", "json").out == before


def test_what_was_applied_last_can_be_seen_and_set(here: Here) -> None:
    here("apply", "-f", "-", stdin=MOORING)
    last = ("apply", "view-last-applied", "mooring", "one", "-o", "json")
    assert json.loads(here(*last).out)["spec"] == {"boats": 2}
    here("apply", "set-last-applied", "-f", "-", stdin=changed(MOORING, boats=3))
    assert json.loads(here(*last).out)["spec"] == {"boats": 3}
    # what was in the last configuration and isn't in this one goes, and its default comes back
    here("apply", "-f", "-", stdin={**MOORING, "spec": {}})
    assert here("get", "mooring", "one", "-o", "jsonpath={.spec.boats}").out == "1"


@pytest.mark.kubectl("1.31")  # and later wait for a creation
def test_waiting_for_creation_and_deletion(
    kubectl: Kubectl, here: Here, api: Callable[[ServerProcess], Any], moorings: ServerProcess, namespace: str
) -> None:
    path = f"/apis/moorings.example.com/v1/namespaces/{namespace}/moorings"
    with kubectl.running("wait", "-n", namespace, "mooring/one", "--for=create", "--timeout=120s") as waiting:
        assert waiting.still_runs()
        api(moorings)("POST", path, MOORING)
        assert waiting.rest() == "mooring.moorings.example.com/one condition met"
    with kubectl.running("wait", "-n", namespace, "mooring/one", "--for=delete", "--timeout=120s") as waiting:
        assert waiting.still_runs()
        api(moorings)("DELETE", f"{path}/one")
        waiting.rest()
