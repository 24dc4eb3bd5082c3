"""kubectl creates, applies, changes and deletes, and says what a user expects when it can't."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

pytestmark = [pytest.mark.kubectl("1.20"), pytest.mark.also_the_oldest]

FOOS = "/apis/hello.zeng.dev/v2/namespaces/{}/foos"
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


@pytest.fixture
def here(kubectl: Kubectl, namespace: str) -> Callable[..., Any]:
    """Runs kubectl in the test's namespace."""

    def run(command: str, *arguments: str, stdin: object = None) -> Any:
        return kubectl(command, "-n", namespace, *arguments, stdin=stdin)

    return run


@pytest.fixture
def spec(here: Callable[..., Any]) -> Callable[[], dict[str, Any]]:
    return lambda: json.loads(here("get", "foo", "one", "-o", "json").out)["spec"]


def test_create(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    dry = here("create", "-f", "-", "--dry-run=server", "-o", "json", stdin=YAML)
    assert json.loads(dry.out)["status"]["phase"] == "Processing"
    assert "NotFound" in kubectl.fails("get", "foo", "one", "-n", namespace)
    assert here("create", "-f", "-", stdin=YAML).lines == ["foo.hello.zeng.dev/one created"]
    again = kubectl.fails("create", "-f", "-", "-n", namespace, stdin=YAML)
    assert "Error from server (AlreadyExists)" in again
    assert 'foos.hello.zeng.dev "one" already exists' in again


def test_client_side_apply(kubectl: Kubectl, here: Callable[..., Any], spec: Callable[[], dict[str, Any]]) -> None:
    def apply(text: str) -> str:
        return str(here("apply", "-f", "-", stdin=text).out).strip()

    assert apply(YAML) == "foo.hello.zeng.dev/one created"
    assert apply(YAML) == "foo.hello.zeng.dev/one unchanged"
    sent = here("apply", "-f", "-", "-v=8", stdin=YAML.replace("msg: hi", "msg: hello"))
    # from 1.27 on kubectl looks into OpenAPI v3 for the patches that are taken
    kinds = {kind for kind in ("strategic-merge", "merge") if f"application/{kind}-patch+json" in sent.err}
    assert kinds == {"strategic-merge" if kubectl.version >= (1, 27) else "merge"}
    assert spec()["config"] == {"msg": "hello", "msg1": "there"}
    removed = "".join(line for line in YAML.splitlines(keepends=True) if "msg1" not in line)
    assert apply(removed) == "foo.hello.zeng.dev/one configured"
    assert spec()["config"] == {"msg": "hi"}
    assert "last-applied-configuration" in here("get", "foo", "one", "-o", "yaml").out


def test_apply_of_what_was_created_without_it(here: Callable[..., Any]) -> None:
    here("create", "-f", "-", stdin=YAML)
    first = here("apply", "-f", "-", stdin=YAML)
    assert first.out == "foo.hello.zeng.dev/one configured\n"
    assert "last-applied-configuration annotation" in first.err
    assert here("apply", "-f", "-", stdin=YAML).out == "foo.hello.zeng.dev/one unchanged\n"


def test_patch(kubectl: Kubectl, here: Callable[..., Any], spec: Callable[[], dict[str, Any]], namespace: str) -> None:
    here("create", "-f", "-", stdin=YAML)
    here("patch", "foo", "one", "--type", "merge", "-p", '{"spec": {"config": {"msg1": null}}}')
    assert spec()["config"] == {"msg": "hi"}
    unchanged = here("patch", "foo", "one", "--type", "merge", "-p", '{"spec": {"config": {"msg1": null}}}')
    assert unchanged.out == "foo.hello.zeng.dev/one patched (no change)\n"
    test = '{"op": "test", "path": "/spec/image", "value": "%s"}'
    change = '{"op": "replace", "path": "/spec/image", "value": "alpine"}'
    here("patch", "foo", "one", "--type", "json", "-p", f"[{test % 'busybox'}, {change}]")
    assert spec()["image"] == "alpine"
    patch = ("patch", "foo", "one", "-n", namespace)
    assert "The request is invalid" in kubectl.fails(*patch, "--type", "json", "-p", f"[{test % 'busybox'}, {change}]")
    assert kubectl(*patch, "-p", '{"spec": {"image": "x"}}').out == "foo.hello.zeng.dev/one patched\n"
    assert spec() == {"image": "x", "config": {"msg": "hi"}}
    assert kubectl(*patch, "-p", '{"spec": {"image": "x"}}').out == "foo.hello.zeng.dev/one patched (no change)\n"


@pytest.mark.kubectl("1.24")
def test_patch_merges_lists_by_their_keys(here: Callable[..., Any]) -> None:
    here("create", "-f", "-", stdin=YAML)
    status = '{"status": {"conditions": [{"type": "%s", "status": "True"}]}}'
    subresource = ("patch", "foo", "one", "--subresource=status", "-p")
    here(*subresource, status % "Worker")
    here(*subresource, status % "Config")
    found = json.loads(here("get", "foo", "one", "-o", "json").out)["status"]["conditions"]
    assert {(one["type"], one["status"]) for one in found} == {("Worker", "True"), ("Config", "True")}


@pytest.mark.kubectl("1.24")
def test_status_is_a_resource_of_its_own(here: Callable[..., Any]) -> None:
    here("create", "-f", "-", stdin=YAML)
    status = '{"status": {"phase": "Ready"}, "spec": {"image": "other"}}'
    here("patch", "foo", "one", "--subresource=status", "--type", "merge", "-p", status)
    assert here("get", "foo", "one", "--subresource=status", "--no-headers").out.split()[1] == "Ready"
    assert here("get", "foo", "one", "-o", "jsonpath={.spec.image}").out == "busybox"


def test_labels_and_annotations(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    here("create", "-f", "-", stdin=YAML)
    here("label", "foo", "one", "tier=web", "app-")
    here("annotate", "foos", "--all", "note=a b")
    metadata = json.loads(here("get", "foo", "one", "-o", "json").out)["metadata"]
    assert metadata["labels"] == {"tier": "web", "hello.zeng.dev/metadata.name": "one"}
    assert metadata["annotations"] == {"note": "a b"}
    assert "--overwrite is false" in kubectl.fails("label", "foo", "one", "-n", namespace, "tier=db")
    here("label", "foo", "one", "tier=db", "--overwrite", f"--resource-version={metadata['resourceVersion']}")
    stale = ("label", "foo", "one", "-n", namespace, "tier=x", "--overwrite", "--resource-version=1")
    assert "the object has been modified" in kubectl.fails(*stale)


def test_replace(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    here("create", "-f", "-", stdin=YAML)
    found = json.loads(here("get", "foo", "one", "-o", "json").out)
    found["spec"]["image"] = "alpine"
    assert here("replace", "-f", "-", stdin=found).out == "foo.hello.zeng.dev/one replaced\n"
    stale = kubectl.fails("replace", "-f", "-", "-n", namespace, stdin=found)
    assert "Error from server (Conflict)" in stale
    assert 'Operation cannot be fulfilled on foos.hello.zeng.dev "one": the object has been modified' in stale
    assert here("replace", "--force", "-f", "-", stdin=YAML).lines[-1] == "foo.hello.zeng.dev/one replaced"
    assert json.loads(here("get", "foo", "one", "-o", "json").out)["metadata"]["uid"] != found["metadata"]["uid"]


def test_delete(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    for name in ("a", "b", "c", "d"):
        labels = "{app: other}" if name == "b" else "{app: hello}"
        text = YAML.replace("name: one", f"name: {name}").replace("{app: hello}", labels)
        here("create", "-f", "-", stdin=text)
    assert here("delete", "foo", "a").out.startswith('foo.hello.zeng.dev "a" deleted')
    assert len(here("delete", "foos", "-l", "app=hello").lines) == 2
    assert here("get", "foos", "-o", "name").lines == ["foo.hello.zeng.dev/b"]
    here("delete", "foos", "--all")
    assert "No resources found" in here("get", "foos").err
    assert "(NotFound)" in kubectl.fails("delete", "foo", "a", "-n", namespace)
    assert here("delete", "foo", "a", "--ignore-not-found").out == ""


def test_delete_waits_until_the_last_finalizer_is_gone(
    kubectl: Kubectl,
    here: Callable[..., Any],
    api: Callable[[ServerProcess], Any],
    hello: ServerProcess,
    namespace: str,
) -> None:
    here("create", "-f", "-", stdin=YAML.replace("  name: one", "  name: one\n  finalizers: [example.com/keep]"))
    one = FOOS.format(namespace) + "/one"
    with kubectl.running("delete", "foo", "one", "-n", namespace, "--wait") as deleting:
        assert 'foo.hello.zeng.dev "one" deleted' in deleting.line()
        assert "deletionTimestamp" in api(hello)("GET", one)["metadata"]
        assert deleting.still_runs()
        api(hello).merge(one, {"metadata": {"finalizers": None}})
        deleting.rest()
    assert "(NotFound)" in kubectl.fails("get", "foo", "one", "-n", namespace)


@pytest.mark.kubectl("1.23")
def test_wait_for_a_field(
    kubectl: Kubectl,
    here: Callable[..., Any],
    api: Callable[[ServerProcess], Any],
    hello: ServerProcess,
    namespace: str,
) -> None:
    here("create", "-f", "-", stdin=YAML)
    ready = "--for=jsonpath={.status.phase}=Ready"
    with kubectl.running("wait", "foo/one", "-n", namespace, ready, "--timeout=120s") as waiting:
        assert waiting.still_runs()
        api(hello).merge(FOOS.format(namespace) + "/one/status", {"status": {"phase": "Ready"}})
        assert waiting.rest() == "foo.hello.zeng.dev/one condition met"
    never = kubectl.fails("wait", "foo/one", "-n", namespace, ready.replace("Ready", "Gone"), "--timeout=100ms")
    assert "timed out waiting for the condition" in never


def test_wait_for_a_condition(
    kubectl: Kubectl,
    here: Callable[..., Any],
    api: Callable[[ServerProcess], Any],
    hello: ServerProcess,
    namespace: str,
) -> None:
    here("create", "-f", "-", stdin=YAML)
    with kubectl.running("wait", "foo/one", "-n", namespace, "--for=condition=Worker", "--timeout=120s") as waiting:
        conditions = [{"type": "Worker", "status": "True"}]
        api(hello).merge(FOOS.format(namespace) + "/one/status", {"status": {"conditions": conditions}})
        assert waiting.rest() == "foo.hello.zeng.dev/one condition met"


def test_mistakes_are_told(kubectl: Kubectl, namespace: str) -> None:
    create = ("create", "-n", namespace, "-f", "-")
    empty = YAML.replace("busybox", '""').replace("msg: hi", 'msg: ""')
    told = kubectl.fails(*create, stdin=empty)
    assert 'The Foo "one" is invalid' in told
    assert '* spec.config.msg: Invalid value: ""' in told
    assert '* spec.image: Invalid value: ""' in told
    assert "nope" in kubectl.fails(*create, stdin=YAML.replace("msg1", "nope"))
    assert '"Not_A_Name"' in kubectl.fails(*create, stdin=YAML.replace("name: one", "name: Not_A_Name"))
    assert "doesn't have a resource type" in kubectl.fails("get", "nothings")
    assert 'foos.hello.zeng.dev "none" not found' in kubectl.fails("get", "foo", "none", "-n", "default")
    assert "MethodNotAllowed" in kubectl.fails("delete", "greeting", "english")


@pytest.mark.kubectl("1.25")
def test_unknown_fields_are_found_by_the_server(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    unknown = YAML.replace("msg1", "nope")
    told = kubectl.fails("create", "-n", namespace, "-f", "-", stdin=unknown)
    assert 'strict decoding error: unknown field "spec.config.nope"' in told
    warned = here("create", "-f", "-", "--validate=warn", stdin=unknown)
    assert 'Warning: unknown field "spec.config.nope"' in warned.err


def test_diff(kubectl: Kubectl, here: Callable[..., Any], namespace: str) -> None:
    here("apply", "-f", "-", stdin=YAML)
    here("diff", "-f", "-", stdin=YAML)
    changed = kubectl.run("diff", "-n", namespace, "-f", "-", stdin=YAML.replace("busybox", "alpine"))
    assert changed.code == 1
    assert "+  image: alpine" in changed.out


FLUNDER = {
    "apiVersion": "wardle.example.com/v1alpha1",
    "kind": "Flunder",
    "metadata": {"name": "one"},
    "spec": {"reference": "other"},
}


def test_a_deprecated_version_warns(wardle_kubectl: Kubectl, namespace: str) -> None:
    created = wardle_kubectl("create", "-n", namespace, "-f", "-", stdin=FLUNDER)
    assert "Warning: wardle.example.com/v1alpha1 Flunder is deprecated" in created.err
    newer = json.loads(wardle_kubectl("get", "flunder", "one", "-n", namespace, "-o", "json").out)
    assert newer["apiVersion"] == "wardle.example.com/v1beta1"
    assert newer["spec"] == {"flunderReference": "other", "referenceType": "Flunder"}


def test_admission_denies(wardle_kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    banned = f"banned-in-{namespace}"[:60]
    fischer = {
        "apiVersion": "wardle.example.com/v1alpha1",
        "kind": "Fischer",
        "metadata": {"name": f"f-{namespace}"},
        "disallowedFlunders": [banned],
    }
    wardle_kubectl("create", "-f", "-", stdin=fischer)
    flunder = {**FLUNDER, "metadata": {"name": banned}}
    told = wardle_kubectl.fails("create", "-n", namespace, "-f", "-", stdin=flunder)
    assert "Error from server (Forbidden)" in told
    assert "this name may not be used, please change the resource name" in told
    wardle_kubectl("delete", "fischer", f"f-{namespace}")
    wardle_kubectl("create", "-n", namespace, "-f", "-", stdin=flunder)
