"""An extension API server of Kubernetes' own code, k8s.io/sample-apiserver, behind a control plane of ours.

It asks the control plane whose a token is and who may do what, and learns there whom to believe as a front proxy:
nobody has given that a certificate, so it makes one. With its informers it checks that namespaces exist, that policies
and webhooks agree.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aggregated_servers import Front, GoServer, api_service, kubeconfig, of_extension, roles
from browser import CHROMIUM, Browser
from databases import EtcdServer
from kubectl import Kubectl, on_the_path
from until import until

from oarlock.server.pages.static_files import write_console

pytestmark = [pytest.mark.slow, pytest.mark.timeout(720)]

GROUP = "wardle.example.com"
FLUNDERS = f"/apis/{GROUP}/v1alpha1/namespaces/default/flunders"
As = Callable[[str], Kubectl]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with Front(tmp_path_factory.mktemp("front")) as server:
        yield server


@pytest.fixture(scope="module")
def user(go_programs: Path, front: Front, tmp_path_factory: pytest.TempPathFactory) -> As:
    """kubectl of today as one of the users of the control plane."""
    return lambda name: Kubectl(str(go_programs / "kubectl"), front.login(name), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def admin(user: As) -> Kubectl:
    return user("admin")


@pytest.fixture(scope="module")
def extension(
    go_programs: Path, front: Front, admin: Kubectl, etcd_server: EtcdServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GoServer]:
    admin("apply", "-f", "-", stdin=of_extension())
    command = [str(go_programs / "servers"), "extension"]
    server = GoServer(tmp_path_factory.mktemp("sample"), front, command, "sample", etcd_server.client_url)
    server.record_requests()
    with server:
        for version, priority in (("v1alpha1", 15), ("v1beta1", 14)):
            admin("apply", "-f", "-", stdin=api_service(GROUP, version, server, versionPriority=priority))
            admin("wait", "--for=condition=Available", f"apiservice/{version}.{GROUP}", "--timeout=60s")
        until(lambda: admin.run("get", "flunders").code == 0)
        yield server


def flunder(name: str, reference: str, namespace: str = "default") -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Flunder",
        "metadata": metadata,
        "spec": {"flunderReference": reference, "referenceType": "Flunder"},
    }


def test_kubectl_finds_and_explains_what_it_serves(extension: GoServer, admin: Kubectl) -> None:
    until(lambda: "FlunderSpec" in admin.run("explain", "flunder.spec").out)
    explained = admin("explain", "flunder.spec", f"--api-version={GROUP}/v1beta1").out
    assert "flunderReference" in explained
    listed = admin("api-resources", f"--api-group={GROUP}", "--no-headers").rows
    assert [(row[0], row[-1]) for row in listed] == [("fischers", "Fischer"), ("flunders", "Flunder")]
    rows = admin("get", "apiservice", f"v1alpha1.{GROUP}", "--no-headers").rows
    assert rows[0][1:3] == ["default/sample", "True"]
    versions = json.loads(admin("get", "--raw", f"/apis/{GROUP}").out)
    assert [one["version"] for one in versions["versions"]] == ["v1alpha1", "v1beta1"]


def test_kubectl_writes_and_watches(extension: GoServer, admin: Kubectl) -> None:
    with admin.running("get", "flunders", "-w", "--output-watch-events") as watch:
        assert admin("apply", "-f", "-", stdin=flunder("kept", "a")).out == "flunder.wardle.example.com/kept created\n"
        watch.line_with("ADDED", " kept ")
        assert admin("apply", "-f", "-", stdin=flunder("kept", "b")).out.endswith(" configured\n")
        watch.line_with("MODIFIED", " kept ")
        applied = admin("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=flunder("kept", "c")).out
        assert applied.endswith(" serverside-applied\n")
        watch.line_with("MODIFIED", " kept ")
        shown = json.loads(admin("get", "flunders.v1alpha1.wardle.example.com", "kept", "-o", "json").out)
        assert shown["spec"] == {"reference": "c", "referenceType": "Flunder"}
        assert "apply" in admin("get", "flunder", "kept", "-o", "yaml", "--show-managed-fields").out.lower()
        admin("delete", "flunder", "kept")
        watch.line_with("DELETED", " kept ")
    assert "NotFound" in admin.fails("get", "flunder", "kept")
    bad = flunder("bad", "a")
    bad["spec"] = {"flunderReference": "a", "fischerReference": "b"}
    assert "cannot be set with flunderReference" in admin.fails("create", "-f", "-", stdin=bad)
    assert 'namespaces "nowhere" not found' in admin.fails("create", "-f", "-", stdin=flunder("a", "b", "nowhere"))


@pytest.mark.skipif(CHROMIUM is None or not shutil.which("kubectl"), reason="chromium or kubectl isn't here")
def test_the_console_needs_nothing_that_only_our_servers_have(extension: GoServer, tmp_path: Path) -> None:
    """The page is files that kubectl proxy serves, and every request goes to the Go server itself."""
    write_console(tmp_path / "console", "sample")
    there = Kubectl(on_the_path(), kubeconfig(extension, "admin", extension.ca), tmp_path / "home")
    place = "#/list/wardle.example.com/v1alpha1/flunders?ns=default"
    served = ("proxy", "--port=0", f"--www={tmp_path / 'console'}", "--www-prefix=/console/")
    with there.running(*served) as proxy, Browser() as browser:
        address = proxy.line_with("Starting to serve").split()[-1]
        with browser.page(f"http://{address}/console/{place}") as page:
            page.wait_for(".live.live")
            there("create", "-f", "-", stdin=flunder("from-kubectl", "a"))
            page.wait_for(".row a", "from-kubectl")
            page.run("location.hash = '#/create/wardle.example.com/v1beta1/flunders?ns=default'")
            page.wait_for("h1", "Create Flunder")
            page.edit(json.dumps(flunder("from-the-console", "from-kubectl") | {"spec": {"referenceType": "Boat"}}))
            page.wait_for(".outcome.refused", "The server would refuse this")
            page.edit(json.dumps(flunder("from-the-console", "from-kubectl")))
            page.wait_for(".outcome.fine")
            page.click(".actions .primary", "Create")
            page.wait_for("h1", "from-the-console")
            page.run("location.hash = '#/health'")
            page.wait_for("h2 .state.good", "yes")
            assert page.problems == []
    there("delete", "flunders", "from-kubectl", "from-the-console")


def test_users_may_what_roles_of_the_control_plane_say(extension: GoServer, admin: Kubectl, user: As) -> None:
    reading = {"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["get", "list", "watch"]}
    admin("apply", "-f", "-", stdin=roles("alice", reading))
    admin("apply", "-f", "-", stdin=flunder("seen", "a"))
    alice, bob = user("alice"), user("bob")
    assert alice("get", "flunders", "seen", "--no-headers").rows[0][0] == "seen"
    with alice.running("get", "flunders", "-w") as watch:
        watch.line_with("seen")
    refused = alice.fails("delete", "flunder", "seen")
    assert 'User "alice" cannot delete resource "flunders" in API group "wardle.example.com"' in refused
    recorded = map(json.loads, (extension.folder / "audit.log").read_text().splitlines())
    identities = [one["user"] for one in recorded if one["user"].get("username") == "alice"]
    assert identities[0]["uid"] == "alice-uid"
    assert identities[0]["groups"] == ["system:authenticated"]
    assert 'User "bob" cannot get resource "flunders"' in bob.fails("get", "flunder", "seen")
    assert alice("auth", "can-i", "list", f"flunders.{GROUP}").out == "yes\n"
    admin("delete", "flunder", "seen")


def test_it_asks_about_those_who_come_past_the_control_plane(
    extension: GoServer, front: Front, admin: Kubectl, go_programs: Path, tmp_path: Path
) -> None:
    """It has no users of its own: the TokenReviews and SubjectAccessReviews of ours answer it."""
    reading = {"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["get", "list", "watch"]}
    admin("apply", "-f", "-", stdin=roles("alice", reading))
    program = str(go_programs / "kubectl")

    def past(name: str) -> Kubectl:
        return Kubectl(program, kubeconfig(extension, name, extension.ca), tmp_path / name)

    assert past("alice").run("get", "--raw", FLUNDERS).code == 0
    assert 'User "bob" cannot list resource "flunders"' in past("bob").fails("get", "--raw", FLUNDERS)
    assert "Unauthorized" in past("nobody").fails("get", "--raw", FLUNDERS)
    assert 'User "alice" cannot' in past("alice").fails("get", "--raw", f"/apis/{GROUP}/v1alpha1/fischers")
    assert json.loads(past("admin")("get", "--raw", FLUNDERS).out)["kind"] == "FlunderList"


def test_a_namespace_goes_with_its_objects_there(extension: GoServer, admin: Kubectl) -> None:
    admin("create", "namespace", "harbour")
    until(lambda: admin.run("apply", "-f", "-", stdin=flunder("inside", "a", "harbour")).code == 0)
    admin("apply", "-f", "-", stdin=flunder("outside", "a"))
    admin("delete", "namespace", "harbour", "--timeout=60s")
    assert admin("get", "flunders", "-A", "--no-headers").rows[0][:2] == ["default", "outside"]
    admin("delete", "flunder", "outside")


def test_killed_and_back(extension: GoServer, admin: Kubectl) -> None:
    """Its clients wait for it; everything else goes on."""
    admin("apply", "-f", "-", stdin=flunder("stays", "a"))
    extension.kill()
    admin.fails("get", "--raw", FLUNDERS)
    until(lambda: "False (FailedDiscoveryCheck)" in admin("get", "apiservice", f"v1alpha1.{GROUP}").out)
    assert "currently unable to handle the request" in admin.fails("get", "--raw", FLUNDERS)
    assert admin("get", "namespaces", "--no-headers").rows
    assert "deployments.apps" in admin.run("api-resources", "-o", "name").out
    extension.start()
    admin("wait", "--for=condition=Available", f"apiservice/v1alpha1.{GROUP}", "--timeout=60s")
    until(lambda: admin.run("get", "flunder", "stays").code == 0)
    admin("delete", "flunder", "stays")


def test_kubernetes_own_test_of_it_passes(go_programs: Path, front: Front, extension: GoServer, admin: Kubectl) -> None:
    admin("create", "namespace", "tested")
    login = str(front.login("admin"))
    command = [str(go_programs / "sampletest"), "-kubeconfig", login, "-namespace", "tested"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    try:
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    finally:  # it has deleted the APIService
        admin("apply", "-f", "-", stdin=api_service(GROUP, "v1alpha1", extension))
        admin("wait", "--for=condition=Available", f"apiservice/v1alpha1.{GROUP}", "--timeout=60s")
