"""kubectl finds out what there is, gets it in every way it can print it, and watches it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

pytestmark = [pytest.mark.kubectl("1.20"), pytest.mark.also_the_oldest]

FOOS = "/apis/hello.zeng.dev/v2/namespaces/{}/foos"


def foo(name: str, msg: str = "hi", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "hello.zeng.dev/v2",
        "kind": "Foo",
        "metadata": {"name": name, **metadata},
        "spec": {"image": "busybox", "config": {"msg": msg, "msg1": "there"}},
    }


@pytest.fixture
def five(api: Callable[[ServerProcess], Any], hello: ServerProcess, namespace: str) -> str:
    """Five foos in the test's namespace, two of them labelled."""
    for number in range(5):
        labels = {"tier": "web"} if number in (1, 3) else {}
        api(hello)("POST", FOOS.format(namespace), foo(f"foo-{number}", f"message {number}", labels=labels))
    return namespace


def test_what_there_is(kubectl: Kubectl) -> None:
    rows = kubectl("api-resources").rows
    assert ["foos", "fo", "hello.zeng.dev/v2", "true", "Foo"] in rows
    assert ["greetings", "hello.zeng.dev/v2", "false", "Greeting"] in rows
    assert kubectl("api-resources", "--namespaced=false", "-o", "name").lines == ["greetings.hello.zeng.dev"]
    assert kubectl("api-resources", "--verbs=watch", "-o", "name").lines == ["foos.hello.zeng.dev"]
    assert kubectl("api-versions").lines == ["hello.zeng.dev/v1", "hello.zeng.dev/v2"]


def test_versions_of_client_and_server(kubectl: Kubectl) -> None:
    versions = json.loads(kubectl("version", "-o", "json").out)
    assert "oarlock" in versions["serverVersion"]["gitVersion"]


def test_raw_paths(kubectl: Kubectl) -> None:
    assert json.loads(kubectl("get", "--raw", "/apis/hello.zeng.dev").out)["preferredVersion"]["version"] == "v2"
    assert kubectl("get", "--raw", "/readyz").out == "ok"
    assert "NotFound" in kubectl.fails("get", "--raw", "/apis/hello.zeng.dev/v2/namespaces/none/foos/none")


def test_tables(kubectl: Kubectl, five: str) -> None:
    header, *rows = kubectl("get", "foos", "-n", five).rows
    assert header == ["NAME", "STATUS", "AGE", "MESSAGE"]
    assert [row[0] for row in rows] == [f"foo-{number}" for number in range(5)]
    assert rows[2][1] == "Processing"
    assert rows[2][3] == "message 2"
    wide = kubectl("get", "fo", "foo-2", "-n", five, "-o", "wide").rows
    assert [wide[0][-1], wide[1][-1]] == ["MESSAGE1", "there"]
    labelled = kubectl("get", "foo.hello.zeng.dev", "foo-1", "-n", five, "--show-labels").rows
    assert labelled[1][-1] == "hello.zeng.dev/metadata.name=foo-1,tier=web"
    everywhere = kubectl("get", "foos", "-A", "--sort-by=.metadata.name").rows
    assert everywhere[0][0] == "NAMESPACE"
    assert [five, "foo-4"] in [row[:2] for row in everywhere]
    assert kubectl("get", "all", "-n", five, "-o", "name").lines[0].endswith("/foo-0")
    assert kubectl("get", "greetings", "--no-headers").rows[0] == ["english", "hello world 👋"]


def test_another_version_has_other_columns(kubectl: Kubectl, five: str) -> None:
    header, row = kubectl("get", "foos.v1.hello.zeng.dev", "foo-0", "-n", five).rows
    assert header == ["NAME", "AGE", "MESSAGE"]
    assert row[2] == "message 0"


def test_other_formats(kubectl: Kubectl, five: str) -> None:
    one = ("get", "foo", "foo-1", "-n", five, "-o")
    parsed = json.loads(kubectl(*one, "json").out)
    assert parsed["spec"] == {"image": "busybox", "config": {"msg": "message 1", "msg1": "there"}}
    assert "\nkind: Foo\n" in kubectl(*one, "yaml").out
    assert kubectl(*one, "name").lines == ["foo.hello.zeng.dev/foo-1"]
    assert kubectl(*one, "jsonpath={.spec.config.msg}").out == "message 1"
    assert kubectl(*one, "custom-columns=IMAGE:.spec.image").lines == ["IMAGE", "busybox"]
    everything = json.loads(kubectl("get", "foos", "-n", five, "-o", "json").out)
    assert [item["metadata"]["name"] for item in everything["items"]] == [f"foo-{number}" for number in range(5)]


def test_selectors(kubectl: Kubectl, five: str) -> None:
    def names(*selector: str) -> list[str]:
        return [line.rpartition("/")[2] for line in kubectl("get", "foos", "-n", five, "-o", "name", *selector).lines]

    assert names("-l", "tier=web") == ["foo-1", "foo-3"]
    assert names("-l", "!tier") == ["foo-0", "foo-2", "foo-4"]
    assert names("-l", "tier in (web,db)", "--field-selector", "metadata.name!=foo-1") == ["foo-3"]
    assert names("--field-selector", "metadata.name=foo-4") == ["foo-4"]
    refused = kubectl.fails("get", "foos", "-n", five, "--field-selector", "spec.image=busybox")
    assert '"spec.image" is not a known field selector' in refused


def test_pages(kubectl: Kubectl, five: str) -> None:
    answer = kubectl("get", "foos", "-n", five, "-o", "name", "--chunk-size=2", "-v=6")
    assert [line.rpartition("/")[2] for line in answer.lines] == [f"foo-{number}" for number in range(5)]
    pages = [line for line in answer.err.splitlines() if "limit=2" in line and "200" in line]
    assert len(pages) == 3
    assert ["continue=" in page for page in pages] == [False, True, True]


def test_a_description(kubectl: Kubectl, five: str) -> None:
    described = kubectl("describe", "foo", "foo-1", "-n", five).out
    for line in ("Name:         foo-1", f"Namespace:    {five}", "API Version:  hello.zeng.dev/v2", "Image:   busybox"):
        assert line in described
    assert "tier=web" in described


def test_explanations(kubectl: Kubectl) -> None:
    told = kubectl("explain", "foo").out
    assert "A foo says hello." in told
    named = "Object" if kubectl.version < (1, 27) else "FooSpec"  # an old one shows no names
    assert f"spec\t<{named}> -required-" in told
    assert "The message." in kubectl("explain", "foo.spec.config.msg").out
    deep = kubectl("explain", "foo", "--recursive").out
    for field in ("ownerReferences", "msg1", "conditions", "phase"):
        assert f"{field}\t<" in deep
    assert "does not exist" in kubectl.fails("explain", "foo.spec.nope")
    other = kubectl("explain", "foo.spec", "--api-version=hello.zeng.dev/v1").out
    assert "msg1" in other
    assert "image" not in other


def test_a_watch_shows_what_another_client_does(
    kubectl: Kubectl, api: Callable[[ServerProcess], Any], hello: ServerProcess, namespace: str
) -> None:
    call, path = api(hello), FOOS.format(namespace)
    call("POST", path, foo("first"))
    watch = ("get", "foos", "-n", namespace, "--watch")
    with kubectl.running(*watch, "--output-watch-events") as events:
        assert events.line_with("ADDED").split()[1] == "first"
        call("POST", path, foo("second"))
        assert events.line_with("second").split()[0] == "ADDED"
        call.merge(f"{path}/first", {"spec": {"config": {"msg": "changed"}}})
        assert events.line_with("first", "changed").split()[0] == "MODIFIED"
        call("DELETE", f"{path}/second")
        assert events.line_with("second").split()[0] == "DELETED"
    with kubectl.running(*watch, "-o", "name", "--watch-only") as names:
        for number in range(100):  # the watch begins at some time after the command has
            call.merge(f"{path}/first", {"metadata": {"labels": {"seen": str(number)}}})
            if names.has_line(0.1):
                break
        assert names.line() == "foo.hello.zeng.dev/first"
