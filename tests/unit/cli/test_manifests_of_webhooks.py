"""``oarlock manifests --home=crd``: definitions, configurations of webhooks, and what runs those."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import webhook_home
import yaml

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.cli.deploying.webhook_objects import ClusterWebhooks, PlacedWebhooks
from oarlock.cli.webhook_commands import WebhookOptions
from oarlock.server.options.commands import read_options
from oarlock.testing.server import InMemory

Tree = dict[str, Any]

WHERE = ("things.py", "--home=crd", "--namespace", "shop", "--image", "shop:1", "--name", "harbour")
HARBOUR = """\
from webhook_home import harbour

server = harbour()
"""
CONTROLLED = """\
from oarlock import APIServer
from oarlock.controllers import Controller
from webhook_home import Berths, BerthV1, BerthV1alpha1, Wreck


class Tugs(Controller[BerthV1], owns=["v1/ConfigMap"]):
    async def reconcile(self, key):
        return None


server = APIServer(serve=[Berths, BerthV1alpha1, Wreck], controllers=[Tugs()])
"""


def objects(text: str) -> dict[str, Tree]:
    """The objects of a YAML stream, by kind and name."""
    return {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(text)}


@pytest.fixture
def manifests(oarlock: Callable[..., Any], folder: Path) -> Callable[..., dict[str, Tree]]:
    """The objects of the harbour, with further flags."""
    (folder / "things.py").write_text(HARBOUR)

    def run(*flags: str) -> dict[str, Tree]:
        done = oarlock("manifests", *WHERE, *flags)
        assert done.returncode == 0, done.stderr
        return objects(done.stdout)

    return run


def container(found: dict[str, Tree]) -> Tree:
    return found["Deployment harbour"]["spec"]["template"]["spec"]["containers"][0]


def test_webhooks_are_asked_what_their_code_is_for_and_not_in_their_own_namespace(manifests: Any):
    found = manifests()
    [mutating] = found["MutatingWebhookConfiguration harbour"]["webhooks"]
    [validating] = found["ValidatingWebhookConfiguration harbour"]["webhooks"]
    assert mutating["name"] == "mutate.berths.harbour.example.com"
    operations = {rule["resources"][0]: rule["operations"] for rule in validating["rules"]}
    assert operations == {"berths": ["CREATE", "DELETE", "UPDATE"], "berths/status": ["UPDATE"]}
    assert validating["rules"][0]["apiVersions"] == ["v1", "v1alpha1"]
    assert validating["rules"][0]["scope"] == "Namespaced"
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}
    for webhook in (mutating, validating):
        assert webhook["namespaceSelector"] == {"matchExpressions": [elsewhere]}
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Fail", 10)
        assert webhook["clientConfig"]["service"]["name"] == "harbour"
    conversion = found["CustomResourceDefinition berths.harbour.example.com"]["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["service"]["path"] == "/convert"
    assert "conversion" not in found["CustomResourceDefinition wrecks.harbour.example.com"]["spec"]


def test_the_webhooks_take_every_flag_that_their_pod_gives_them(manifests: Any):
    for certificates in ("renewed", "generated", "cert-manager"):
        found = manifests("--certificates", certificates)
        command, *words = container(found)["args"]
        assert (command, words[0]) == ("webhooks", "things.py")
        options = read_options(WebhookOptions, words, "oarlock webhooks")
        assert options.secure_port == container(found)["ports"][0]["containerPort"]
        assert options.configuration == "harbour"


def test_they_may_read_what_informers_follow_and_write_their_own_objects_only(manifests: Any):
    found = manifests()
    [rule] = found["ClusterRole shop:harbour:cluster"]["rules"]
    assert (rule["resources"], rule["verbs"]) == (["wrecks"], ["get", "list", "watch"])
    rules = found["ClusterRole shop:harbour:certificate"]["rules"]
    assert {(rule["resources"][0], *rule["resourceNames"]) for rule in rules} == {
        ("customresourcedefinitions", "berths.harbour.example.com"),
        ("mutatingwebhookconfigurations", "harbour"),
        ("validatingwebhookconfigurations", "harbour"),
    }
    assert "RoleBinding shop:harbour:auth-reader" not in found


def test_cert_manager_injects_the_authority_everywhere(manifests: Any):
    found = manifests("--certificates=cert-manager")
    told = {name for name, tree in found.items() if "annotations" in tree["metadata"]}
    assert told == {
        "CustomResourceDefinition berths.harbour.example.com",
        "MutatingWebhookConfiguration harbour",
        "ValidatingWebhookConfiguration harbour",
    }


def test_a_generated_authority_is_in_every_bundle_and_failures_may_be_ignored(manifests: Any):
    found = manifests("--certificates=generated", "--failure-policy=Ignore")
    bundle = found["Secret harbour-certificate"]["data"]["ca.crt"]
    for kind in ("Mutating", "Validating"):
        [webhook] = found[f"{kind}WebhookConfiguration harbour"]["webhooks"]
        assert webhook["clientConfig"]["caBundle"] == bundle
        assert webhook["failurePolicy"] == "Ignore"


def test_controllers_run_beside_the_webhooks_in_one_process_of_several(oarlock: Callable[..., Any], folder: Path):
    (folder / "things.py").write_text(CONTROLLED)
    found = objects(oarlock("manifests", *WHERE).stdout)
    options = read_options(WebhookOptions, container(found)["args"][1:], "oarlock webhooks")
    assert options.controllers
    assert (options.leader_elect_resource_namespace, options.leader_elect_resource_name) == ("shop", "harbour")
    resources = {
        resource for rule in found["ClusterRole shop:harbour:cluster"]["rules"] for resource in rule["resources"]
    }
    assert {"berths", "berths/status", "configmaps", "events", "leases"} <= resources


def test_a_store_has_no_place_there(oarlock: Callable[..., Any], folder: Path):
    (folder / "things.py").write_text(HARBOUR)
    done = oarlock("manifests", *WHERE, "--storage=etcd://a")
    assert done.returncode == 2
    assert "the cluster keeps the objects" in done.stderr


@pytest.mark.anyio
async def test_a_control_plane_takes_every_definition_and_configuration():
    server = webhook_home.harbour()
    service = {"namespace": "shop", "name": "harbour"}
    place = PlacedWebhooks("harbour", lambda path: {"service": {**service, "path": path}}, "shop", {"a": "b"})
    async with InMemory(ControlPlane()) as api:
        for tree in ClusterWebhooks(server.catalog.resources, server.user_code.admission, place).objects():
            path = f"/apis/{tree['apiVersion']}/{tree['kind'].lower()}s"
            made = await api.post(path, tree)
            assert made.status == 201, made.json
