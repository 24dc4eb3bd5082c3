"""``kubectl apply --server-side``, its conflicts, and the commands that lean on it: diff, edit, prune, dry runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

pytestmark = pytest.mark.kubectl("1.20")

YAML = """\
apiVersion: hello.zeng.dev/v2
kind: Foo
metadata:
  name: one
  labels: {app: hello}
spec:
  image: busybox
  config:
    msg: hi  # the greeting
    msg1: there
"""
SERVER_SIDE = ("apply", "--server-side", "-f", "-")


@pytest.fixture
def here(kubectl: Kubectl, namespace: str) -> Callable[..., Any]:
    """Runs kubectl in the test's namespace."""

    def run(command: str, *arguments: str, stdin: object = None) -> Any:
        return kubectl(command, "-n", namespace, *arguments, stdin=stdin)

    return run


@pytest.fixture
def found(kubectl: Kubectl, here: Callable[..., Any]) -> Callable[[], dict[str, Any]]:
    # managedFields were shown without being asked for until 1.21
    shown = ("--show-managed-fields",) if kubectl.version >= (1, 21) else ()
    return lambda: dict(json.loads(here("get", "foo", "one", "-o", "json", *shown).out))


def owners(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{e['manager']} {e['operation']}": e["fieldsV1"] for e in tree["metadata"]["managedFields"]}


def test_create_change_and_nothing_to_change(here: Callable[..., Any], found: Callable[[], dict[str, Any]]) -> None:
    applied = "foo.hello.zeng.dev/one serverside-applied\n"
    assert here(*SERVER_SIDE, stdin=YAML).out == applied
    first = found()
    assert owners(first)["kubectl Apply"] == {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:image": {}, "f:config": {"f:msg": {}, "f:msg1": {}}},
    }
    assert here(*SERVER_SIDE, stdin=YAML).out == applied
    assert found()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    without = "".join(line for line in YAML.splitlines(keepends=True) if "msg1" not in line)
    here(*SERVER_SIDE, stdin=without.replace("busybox", "alpine"))
    assert found()["spec"] == {"image": "alpine", "config": {"msg": "hi"}}
    assert "annotations" not in found()["metadata"]


def test_a_conflict_is_explained_and_can_be_forced(
    kubectl: Kubectl, here: Callable[..., Any], found: Callable[[], dict[str, Any]], namespace: str
) -> None:
    here(*SERVER_SIDE, "--field-manager=first", stdin=YAML)
    changed = YAML.replace("busybox", "alpine").replace("msg: hi", "msg: bye")
    second = (*SERVER_SIDE, "-n", namespace, "--field-manager=second")
    told = kubectl.fails(*second, stdin=changed)
    assert 'Apply failed with 2 conflicts: conflicts with "first"' in told
    assert "- .spec.config.msg\n" in told
    assert "- .spec.image\n" in told
    assert "--force-conflicts" in told
    assert found()["spec"]["image"] == "busybox"
    one = kubectl.fails(*second, stdin=YAML.replace("busybox", "alpine"))
    assert 'Apply failed with 1 conflict: conflict with "first": .spec.image' in one
    here(*SERVER_SIDE, "--field-manager=second", "--force-conflicts", stdin=changed)
    assert found()["spec"] == {"image": "alpine", "config": {"msg": "bye", "msg1": "there"}}
    assert "f:image" not in owners(found())["first Apply"].get("f:spec", {})


def test_edits_by_others_conflict(
    kubectl: Kubectl, here: Callable[..., Any], found: Callable[[], dict[str, Any]], namespace: str
) -> None:
    here(*SERVER_SIDE, stdin=YAML)
    here("patch", "foo", "one", "--type=merge", "-p", '{"spec": {"image": "alpine"}}')
    told = kubectl.fails(*SERVER_SIDE, "-n", namespace, stdin=YAML)
    assert 'conflict with "kubectl-patch" using hello.zeng.dev/v2: .spec.image' in told
    here(*SERVER_SIDE, stdin=YAML.replace("busybox", "alpine"))
    assert found()["spec"]["image"] == "alpine"


@pytest.mark.kubectl("1.26")
def test_what_was_applied_by_the_client_is_taken_over(
    kubectl: Kubectl, here: Callable[..., Any], found: Callable[[], dict[str, Any]]
) -> None:
    here("apply", "-f", "-", stdin=YAML)
    assert list(owners(found())) == ["kubectl-client-side-apply Update"]
    without = "".join(line for line in YAML.splitlines(keepends=True) if "msg1" not in line)
    here(*SERVER_SIDE, stdin=without.replace("busybox", "alpine"))
    after = found()
    assert after["spec"] == {"image": "alpine", "config": {"msg": "hi"}}
    last_applied: dict[str, Any] = {"f:annotations": {"f:kubectl.kubernetes.io/last-applied-configuration": {}}}
    assert owners(after) == {
        "kubectl-last-applied Apply": {"f:metadata": last_applied},
        "kubectl Apply": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:image": {}, "f:config": {"f:msg": {}}},
        },
    }
    here(*SERVER_SIDE, stdin=YAML)
    assert found()["spec"]["config"] == {"msg": "hi", "msg1": "there"}


def test_back_to_applying_by_the_client(here: Callable[..., Any], found: Callable[[], dict[str, Any]]) -> None:
    here("apply", "-f", "-", stdin=YAML)
    here(*SERVER_SIDE, "--force-conflicts", stdin=YAML.replace("hi ", "bye "))
    last = found()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(last)["spec"]["config"]["msg"] == "bye"
    without = "".join(line for line in YAML.splitlines(keepends=True) if "msg1" not in line)
    assert here("apply", "-f", "-", stdin=without).out == "foo.hello.zeng.dev/one configured\n"
    assert found()["spec"]["config"] == {"msg": "hi"}


def test_dry_runs_of_the_server(
    kubectl: Kubectl, here: Callable[..., Any], found: Callable[[], dict[str, Any]], namespace: str
) -> None:
    said = here(*SERVER_SIDE, "--dry-run=server", stdin=YAML)
    assert said.out == "foo.hello.zeng.dev/one serverside-applied (server dry run)\n"
    assert here("create", "-f", "-", "--dry-run=server", stdin=YAML).out == (
        "foo.hello.zeng.dev/one created (server dry run)\n"
    )
    assert "(NotFound)" in kubectl.fails("get", "foo", "one", "-n", namespace)
    here(*SERVER_SIDE, stdin=YAML)
    before = found()
    would = here(*SERVER_SIDE, "--dry-run=server", "-o", "json", stdin=YAML.replace("busybox", "alpine"))
    assert json.loads(would.out)["spec"]["image"] == "alpine"
    assert found() == before


def test_diff_of_a_server_side_apply(
    kubectl: Kubectl, here: Callable[..., Any], found: Callable[[], dict[str, Any]], namespace: str
) -> None:
    here(*SERVER_SIDE, stdin=YAML)
    before = found()
    diff = ("diff", "--server-side", "-n", namespace, "-f", "-")
    assert kubectl.run(*diff, stdin=YAML).code == 0
    changed = kubectl.run(*diff, stdin=YAML.replace("busybox", "alpine"))
    assert changed.code == 1
    assert "-  image: busybox" in changed.out
    assert "+  image: alpine" in changed.out
    assert found() == before


@pytest.mark.parametrize("change", ["s/busybox/alpine/", "s/nothing/else/"], ids=["changed", "left"])
def test_edit(  # with an editor that needs nobody
    kubectl: Kubectl,
    here: Callable[..., Any],
    found: Callable[[], dict[str, Any]],
    hello: ServerProcess,
    namespace: str,
    change: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(*SERVER_SIDE, stdin=YAML)
    before = found()
    monkeypatch.setenv("EDITOR", f"sed -i {change}")
    edited = Kubectl(kubectl.path, hello.kubeconfig, tmp_path)("edit", "foo", "one", "-n", namespace)
    if "nothing" in change:
        assert "no changes made" in edited.err
        assert found() == before
    else:
        assert edited.out == "foo.hello.zeng.dev/one edited\n"
        assert found()["spec"] == {"image": "alpine", "config": {"msg": "hi", "msg1": "there"}}
        assert owners(found())["kubectl-edit Update"] == {"f:spec": {"f:image": {}}}


@pytest.mark.kubectl("1.24")
def test_status_is_replaced_and_patched_alone(here: Callable[..., Any], found: Callable[[], dict[str, Any]]) -> None:
    here(*SERVER_SIDE, stdin=YAML)
    change = '{"spec": {"image": "no"}, "status": {"phase": "Ready"}}'
    assert here("patch", "foo", "one", "--subresource=status", "--type=merge", "-p", change).out == (
        "foo.hello.zeng.dev/one patched\n"
    )
    tree = found()
    assert (tree["spec"]["image"], tree["status"]["phase"]) == ("busybox", "Ready")
    tree["spec"]["image"], tree["status"]["phase"] = "no", "Processing"
    assert here("replace", "--subresource=status", "-f", "-", stdin=tree).out == "foo.hello.zeng.dev/one replaced\n"
    tree = found()
    assert (tree["spec"]["image"], tree["status"]["phase"]) == ("busybox", "Processing")
    by = [(e["manager"], e.get("subresource")) for e in tree["metadata"]["managedFields"]]
    assert ("kubectl-replace", "status") in by
    # what the object is applied with doesn't touch its status
    here(*SERVER_SIDE, stdin=YAML + "status:\n  phase: Ready\n")
    assert found()["status"]["phase"] == "Processing"


@pytest.mark.kubectl("1.25")
def test_fields_that_are_unknown(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    unknown = YAML.replace("msg1", "nope")
    apply = ("apply", "-n", namespace, "-f", "-")
    told = kubectl.fails(*apply, "--validate=strict", stdin=unknown)
    assert 'strict decoding error: unknown field "spec.config.nope"' in told
    for validate in ("strict", "warn", "ignore"):
        told = kubectl.fails(*apply, "--server-side", f"--validate={validate}", stdin=unknown)
        assert ".spec.config.nope: field not declared in schema" in told
        assert "Internal" not in told
    warned = here("apply", "-f", "-", "--validate=warn", stdin=unknown)
    assert 'Warning: unknown field "spec.config.nope"' in warned.err
    ignored = here("apply", "-f", "-", "--validate=ignore", stdin=unknown.replace("name: one", "name: two"))
    assert ignored.err == ""
    assert ignored.out == "foo.hello.zeng.dev/two created\n"


def test_prune(here: Callable[..., Any]) -> None:
    two = YAML.replace("name: one", "name: two")
    other = YAML.replace("name: one", "name: other").replace("app: hello", "app: other")
    prune = ("apply", "--prune", "-l", "app=hello", "-f", "-")
    allowed = "--prune-whitelist" if not _has_allowlist(here) else "--prune-allowlist"
    here("apply", "-f", "-", stdin=f"{YAML}---\n{two}---\n{other}")
    said = here(*prune, f"{allowed}=hello.zeng.dev/v2/Foo", stdin=YAML)
    assert sorted(said.lines) == ["foo.hello.zeng.dev/one unchanged", "foo.hello.zeng.dev/two pruned"]
    assert here("get", "foos", "-o", "name").lines == ["foo.hello.zeng.dev/one", "foo.hello.zeng.dev/other"]


def _has_allowlist(here: Callable[..., Any]) -> bool:
    return "--prune-allowlist" in here("apply", "--help").out


@pytest.mark.kubectl("1.28")
def test_explain_shows_what_is_allowed(kubectl: Kubectl) -> None:
    text = kubectl("explain", "foo.status.phase").out
    assert "ENUM:" in text
    assert text.index("Processing") < text.index("Ready")
    text = kubectl("explain", "foo.status.conditions").out
    assert "type\t<string> -required-" in text
