"""``oarlock manifests``: the objects that run a server behind a cluster's API server."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from oarlock.cli.deploying.command import differences
from oarlock.server.command import ExtensionOptions
from oarlock.server.options.commands import read_options
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS

WHERE = ("things.py", "--namespace", "shop", "--image", "shop:1")

Tree = dict[str, Any]
FLOW_CONTROL = {
    ("flowcontrol.apiserver.k8s.io", plural): ["get", "list", "watch"]
    for plural in ("flowschemas", "prioritylevelconfigurations")
}


def objects(text: str) -> dict[str, Tree]:
    """The objects of a YAML stream, by kind and name."""
    trees = list(yaml.safe_load_all(text))
    assert len({f"{one['kind']} {one['metadata']['name']}" for one in trees}) == len(trees)
    return {f"{one['kind']} {one['metadata']['name']}": one for one in trees}


def container(found: dict[str, Tree], kind: str) -> Tree:
    return found[f"{kind} things"]["spec"]["template"]["spec"]["containers"][0]


def test_without_a_shared_store_one_server_keeps_sqlite_on_a_volume(oarlock: Callable[..., Any]):
    found = objects(oarlock("manifests", *WHERE).stdout)
    spec = found["StatefulSet things"]["spec"]
    assert spec["replicas"] == 1
    assert spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert "--storage=sqlite:////data/objects.db" in container(found, "StatefulSet")["args"]
    assert not any(name.startswith(("PodDisruptionBudget", "Deployment")) for name in found)


def test_with_a_shared_store_two_servers_run_and_its_password_is_in_a_secret(oarlock: Callable[..., Any]):
    done = oarlock("manifests", *WHERE, "--storage", "postgresql://u:hidden@db.example.com:5433/shop")
    found = objects(done.stdout)
    assert found["Deployment things"]["spec"]["replicas"] == 2
    assert found["PodDisruptionBudget things"]["spec"]["minAvailable"] == 1
    config = yaml.safe_load(base64.b64decode(found["Secret things-storage"]["data"]["config.yaml"]))
    assert config["storage"] == "postgresql://u:hidden@db.example.com:5433/shop"
    assert "hidden" not in done.stdout
    out = found["NetworkPolicy things"]["spec"]["egress"]
    assert {"ports": [{"port": 5433, "protocol": "TCP"}]} in out


def test_the_server_takes_every_flag_that_its_pod_gives_it(oarlock: Callable[..., Any], tmp_path: Path):
    for certificates in ("renewed", "generated", "cert-manager"):
        found = objects(oarlock("manifests", *WHERE, "--certificates", certificates).stdout)
        command, file, *flags = container(found, "StatefulSet")["args"]
        assert (command, file) == ("serve", "things.py")
        options = read_options(ExtensionOptions, flags, "oarlock serve")
        assert options.follows_cluster
        assert options.secure_port == container(found, "StatefulSet")["ports"][0]["containerPort"]


def test_every_served_version_is_registered_and_the_preferred_comes_first(oarlock: Callable[..., Any], folder: Path):
    source = (folder / "things.py").read_text()
    old = 'class Old(Thing, group="test.example.com", version="v1beta1", plural="olds"):\n    """Old."""'
    source = source.replace("server = ", f"{old}\n\n\nserver = ").replace("serve=[Thing]", "serve=[Thing, Old]")
    (folder / "things.py").write_text(source)
    found = objects(oarlock("manifests", *WHERE, "--certificates", "generated").stdout)
    first, second = (found[f"APIService {name}.test.example.com"]["spec"] for name in ("v1", "v1beta1"))
    assert first["versionPriority"] > second["versionPriority"]
    assert first["service"] == {"namespace": "shop", "name": "things", "port": 443}


def test_a_generated_certificate_is_for_the_service_and_signed_by_what_the_cluster_trusts(oarlock: Callable[..., Any]):
    found = objects(oarlock("manifests", *WHERE, "--certificates", "generated").stdout)
    data = {name: base64.b64decode(text) for name, text in found["Secret things-certificate"]["data"].items()}
    assert set(data) == {"ca.crt", "tls.crt", "tls.key"}
    certificate, authority = (x509.load_pem_x509_certificate(data[name]) for name in ("tls.crt", "ca.crt"))
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "things.shop.svc" in names.get_values_for_type(x509.DNSName)
    bundle = found["APIService v1.test.example.com"]["spec"]["caBundle"]
    assert base64.b64decode(bundle) == data["ca.crt"]


def test_servers_that_renew_their_certificate_may_write_their_own_objects_only(oarlock: Callable[..., Any]):
    found = objects(oarlock("manifests", *WHERE).stdout)
    assert "caBundle" not in found["APIService v1.test.example.com"]["spec"]
    [rule] = found["ClusterRole shop:things:certificate"]["rules"]
    assert rule["resourceNames"] == ["v1.test.example.com"]
    _, about_one = found["Role things-certificate"]["rules"]
    assert about_one["resourceNames"] == ["things-certificate"]


def test_with_cert_manager_it_injects_the_authority(oarlock: Callable[..., Any]):
    found = objects(oarlock("manifests", *WHERE, "--certificates", "cert-manager").stdout)
    assert found["Certificate things-certificate"]["spec"]["dnsNames"][0] == "things.shop.svc"
    annotations = found["APIService v1.test.example.com"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "shop/things-certificate"}


def test_what_resources_let_users_do_becomes_part_of_the_clusters_roles(oarlock: Callable[..., Any], folder: Path):
    source = (folder / "things.py").read_text()
    source = source.replace("import APIServer,", "import APIServer, DefaultRoles,")
    (folder / "things.py").write_text(source.replace('version="v1"', 'version="v1", rbac=DefaultRoles()'))
    found = objects(oarlock("manifests", *WHERE).stdout)
    role = found["ClusterRole shop:things:view"]
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"][0]["resources"] == ["things"]


NO_RULES = ("--disable-admission-plugins", ",".join(CLUSTER_PLUGINS))
CONTROLLED = """
from oarlock.controllers import ClusterControllers, Controller, Watched


class Things(Controller[Thing], owns=["apps/v1/Deployment"], watches=[Watched("v1/Node", to=lambda node: [])]):
    async def reconcile(self, key):
        return None


server = APIServer(serve=[Thing], controllers=[ClusterControllers([Things()])])
"""


def test_a_server_may_do_with_the_cluster_what_its_controllers_declare_and_is_told(
    oarlock: Callable[..., Any], folder: Path
):
    source = (folder / "things.py").read_text()
    (folder / "things.py").write_text(source[: source.index("server = ")] + CONTROLLED)
    done = oarlock("manifests", *WHERE, *NO_RULES, "--allow", "get,list:pods,secrets", "--allow", "create:jobs.batch")
    found = objects(done.stdout)
    rules = {
        (group, resource): rule["verbs"]
        for rule in found["ClusterRole shop:things:cluster"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    follow = ["get", "list", "watch"]
    assert rules == {
        ("", "events"): ["create", "patch"],
        ("", "nodes"): follow,
        ("", "pods"): ["get", "list"],
        ("", "secrets"): ["get", "list"],
        ("apps", "deployments"): ["create", "delete", *follow[:2], "patch", "update", "watch"],
        ("batch", "jobs"): ["create"],
        ("events.k8s.io", "events"): ["create", "patch"],
        **FLOW_CONTROL,
        ("test.example.com", "things"): [*follow[:2], "patch", "update", "watch"],
        ("test.example.com", "things/finalizers"): ["update"],
        ("test.example.com", "things/status"): ["patch", "update"],
    }
    bound = found["ClusterRoleBinding shop:things:cluster"]
    assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "things", "namespace": "shop"}]


def test_a_server_whose_code_needs_nothing_of_the_cluster_reads_only_how_requests_are_divided(
    oarlock: Callable[..., Any],
):
    found = objects(oarlock("manifests", *WHERE, *NO_RULES).stdout)
    [rule] = found["ClusterRole shop:things:cluster"]["rules"]
    assert {(*rule["apiGroups"], name): rule["verbs"] for name in rule["resources"]} == FLOW_CONTROL


def test_controllers_on_the_servers_own_objects_write_events_and_leases_of_the_cluster(
    oarlock: Callable[..., Any], folder: Path
):
    source = (folder / "things.py").read_text()
    own = CONTROLLED.replace("ClusterControllers([Things()])", "Things()").replace(
        'owns=["apps', 'lease="a/b", owns=["apps'
    )
    (folder / "things.py").write_text(source[: source.index("server = ")] + own)
    found = objects(oarlock("manifests", *WHERE, *NO_RULES).stdout)
    rules = found["ClusterRole shop:things:cluster"]["rules"]
    verbs = {tuple(rule["resources"]): rule["verbs"] for rule in rules if "flowschemas" not in rule["resources"]}
    assert verbs == {("events",): ["create", "patch"], ("leases",): ["create", "get", "update"]}


def test_rules_of_the_cluster_apply_and_may_be_read_as_far_as_they_are_on(oarlock: Callable[..., Any]):
    every = objects(oarlock("manifests", *WHERE).stdout)
    assert "--kubeconfig=in-cluster" in container(every, "StatefulSet")["args"]
    webhooks = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook,MutatingAdmissionPolicy"
    some = objects(oarlock("manifests", *WHERE, "--disable-admission-plugins", webhooks).stdout)
    assert f"--disable-admission-plugins={webhooks}" in container(some, "StatefulSet")["args"]
    read = [
        {resource for rule in found["ClusterRole shop:things:cluster"]["rules"] for resource in rule["resources"]}
        for found in (every, some)
    ]
    webhook_pods = {"to": [{"namespaceSelector": {}}]}
    assert webhook_pods in every["NetworkPolicy things"]["spec"]["egress"]
    assert webhook_pods not in some["NetworkPolicy things"]["spec"]["egress"]
    policies = {"namespaces", "validatingadmissionpolicies", "validatingadmissionpolicybindings"}
    policies |= {"resourcequotas", "resourcequotas/status", *(plural for _, plural in FLOW_CONTROL)}
    assert read[1] == policies
    assert read[0] == policies | {
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("services", "endpoints", "endpointslices"),
    }


def test_only_one_of_several_servers_waits_before_it_leaves_and_all_are_given_the_time(oarlock: Callable[..., Any]):
    for given, kind, delay in (
        ((), "StatefulSet", []),
        (("--storage", "etcd://a"), "Deployment", ["--shutdown-delay-duration=10s"]),
    ):
        found = objects(oarlock("manifests", *WHERE, *given).stdout)
        args = container(found, kind)["args"]
        assert [one for one in args if one.startswith("--shutdown-delay")] == delay
        flags = [one for one in args[2:] if not one.startswith("--config=")]
        options = read_options(ExtensionOptions, flags, "oarlock serve")
        grace_s = found[f"{kind} things"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace_s > options.shutdown_delay_s + options.request_timeout_s


def test_a_base_for_kustomize_has_every_object_and_keeps_files_of_others(oarlock: Callable[..., Any], folder: Path):
    assert oarlock("manifests", *WHERE, "--certificates", "generated", "-o", "base").returncode == 0
    base = yaml.safe_load((folder / "base" / "kustomization.yaml").read_text())
    assert sorted(base["resources"]) == sorted(
        path.name for path in (folder / "base").iterdir() if path.name != "kustomization.yaml"
    )
    assert (folder / "base" / "secret-things-certificate.yaml").stat().st_mode & 0o077 == 0
    assert oarlock("manifests", *WHERE, "-o", "base").returncode == 0
    (folder / "base" / "service-things.yaml").write_text("mine: true\n")
    done = oarlock("manifests", *WHERE, "-o", "base")
    assert done.returncode == 1
    assert "base/service-things.yaml: oarlock manifests didn't write this file" in done.stderr
    assert (folder / "base" / "service-things.yaml").read_text() == "mine: true\n"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--namespace", "Shop"], "must be the name of a namespace"),
        (["--image", "a b"], "must be the name of an image"),
        (["--name", "9"], "must be lower-case letters"),
        (["--certificates", "mine"], "must be one of generated, cert-manager, renewed"),
        (["--storage", "sqlite:///x.db"], "leave it out"),
        (["--storage-size", "big"], "must be a quantity"),
        (["--replicas", "3"], "--replicas=3: SQLite on a volume is for one server"),
        (["--storage", "memory://", "--replicas", "2"], "--replicas=2: memory is for one server"),
        (["--allow", "pods"], "write VERBS:RESOURCES"),
        (["--allow", "get:pods,jobs.batch"], "has resources of several groups"),
        (["--check", "-o", "x"], "writes, and --check writes nothing"),
    ],
)
def test_what_cant_run_is_refused(oarlock: Callable[..., Any], flags: list[str], told: str):
    done = oarlock(
        "manifests",
        *(WHERE[:3] if "--image" in flags else WHERE[:1] + WHERE[3:] if "--namespace" in flags else WHERE),
        *flags,
    )
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert done.stdout == ""


def test_a_comparison_tells_what_is_missing_or_differs_and_no_secret():
    wanted = {"kind": "Service", "spec": {"ports": [{"port": 443, "name": "https"}], "selector": {"a": "b"}}}
    held = {"kind": "Service", "spec": {"ports": [{"port": 80, "name": "https", "protocol": "TCP"}], "clusterIP": "x"}}
    assert differences(wanted, held) == [
        "spec.ports[0].port: 80, should be 443",
        "spec.selector: missing, should be {'a': 'b'}",
    ]
    new, old = ({"kind": "Secret", "data": {"config.yaml": text, "tls.key": text}} for text in ("new", "old"))
    assert differences(new, old) == ["data.config.yaml: differs"]


def test_an_unreachable_cluster_is_told_in_one_line(oarlock: Callable[..., Any], folder: Path):
    done = oarlock("manifests", *WHERE, "--check", "--kubeconfig", "none.yaml")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "none.yaml" in done.stderr


def test_the_servers_own_code_reaches_what_egress_says(oarlock: Callable[..., Any]):
    done = oarlock("manifests", *WHERE, "--egress", "5432", "--egress=10.1.0.0/16:8080", "--egress=[fd00::/8]:9000")
    out = objects(done.stdout)["NetworkPolicy things"]["spec"]["egress"]
    assert {"ports": [{"port": 5432, "protocol": "TCP"}]} in out
    assert {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 8080, "protocol": "TCP"}]} in out
    assert {"to": [{"ipBlock": {"cidr": "fd00::/8"}}], "ports": [{"port": 9000, "protocol": "TCP"}]} in out


@pytest.mark.parametrize("wrong", ["0", "65536", "http", "x:80", "10.0.0.1/8:80", ":"])
def test_a_place_to_reach_that_is_none_is_told(oarlock: Callable[..., Any], wrong: str):
    done = oarlock("manifests", *WHERE, f"--egress={wrong}")
    assert done.returncode == 1 or done.returncode == 2
    assert done.stderr.startswith("oarlock: ")
    assert len(done.stderr.splitlines()) == 1


def test_who_serves_what_is_kept_elsewhere_is_told_of_egress(oarlock: Callable[..., Any], folder: Path):
    virtual = "class Echoes(VirtualCollection[Thing]):\n    async def get(self, name, ctx): ...\n"
    text = (folder / "things.py").read_text().replace("Resource\n", "Resource, VirtualCollection\n", 1)
    (folder / "things.py").write_text(text.replace("server =", f"{virtual}server =").replace("[Thing],", "[Echoes],"))
    assert "give --egress=PORT" in oarlock("manifests", *WHERE).stderr
    assert oarlock("manifests", *WHERE, "--egress", "5432").stderr == ""


def test_objects_are_called_as_the_server_is(oarlock: Callable[..., Any], folder: Path):
    (folder / "server.py").write_text((folder / "things.py").read_text().replace('"things"', '"fleet"'))
    assert "StatefulSet fleet" in objects(oarlock("manifests", "server.py", *WHERE[1:]).stdout)
    (folder / "nameless.py").write_text((folder / "things.py").read_text().replace(', name="things"', ""))
    assert "StatefulSet nameless" in objects(oarlock("manifests", "nameless.py", *WHERE[1:]).stdout)
