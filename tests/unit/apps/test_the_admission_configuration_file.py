"""``--admission-control-config-file``: what it may say, and whom webhooks are shown because of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.admission.configuration_file import AdmissionConfiguration, AdmissionFileError
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.client.login.kubeconfig import ClientConfig, ClientConfigError
from oarlock.client.webhooks import KubeconfigCredentials
from oarlock.schema.types.declaring import KeywordError

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
WEBHOOKS = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration"}


def written(file: Path, tree: Any) -> Path:
    file.write_text(json.dumps(tree))
    return file


def plugin(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": f"{name}AdmissionWebhook", **fields}


def test_a_configuration_is_in_the_file_or_in_one_beside_it(tmp_path: Path):
    written(tmp_path / "own.yaml", {**WEBHOOKS, "kubeConfigFile": "/b"})
    inline = plugin("Validating", configuration={**WEBHOOKS, "kubeConfigFile": "/a"})
    file = written(tmp_path / "a.yaml", {**HEAD, "plugins": [inline, plugin("Mutating", path="own.yaml")]})
    found = AdmissionConfiguration.read(file).kubeconfigs
    assert found == {"ValidatingAdmissionWebhook": Path("/a"), "MutatingAdmissionWebhook": Path("/b")}


def test_plugins_that_are_told_nothing(tmp_path: Path):
    plugins = [{"name": "ResourceQuota"}, plugin("Mutating", configuration=WEBHOOKS)]
    assert AdmissionConfiguration.read(written(tmp_path / "a", {**HEAD, "plugins": plugins})).kubeconfigs == {}
    assert AdmissionConfiguration.read(written(tmp_path / "a", HEAD)).kubeconfigs == {}


MISTAKES: dict[str, tuple[Any, str]] = {
    "no object": ([], "must be an object"),
    "another kind": ({**HEAD, "kind": "Pod"}, "kind: write apiVersion: apiserver.config.k8s.io/v1 and kind: Admission"),
    "an unknown field": ({**HEAD, "plugin": []}, "plugin: unknown field"),
    "no list": ({**HEAD, "plugins": {}}, "plugins: must be a list"),
    "no name": ({**HEAD, "plugins": [{"path": "x"}]}, "plugins[0].name: is required"),
    "twice": (
        {**HEAD, "plugins": [plugin("Mutating", configuration=WEBHOOKS)] * 2},
        'plugins[1].name: "MutatingAdmissionWebhook" is there twice',
    ),
    "both": (
        {**HEAD, "plugins": [plugin("Mutating", path="x", configuration=WEBHOOKS)]},
        "plugins[0]: write path or configuration, not both",
    ),
    "nobody's": (
        {**HEAD, "plugins": [{"name": "ResourceQuota", "configuration": {"kind": "x"}}]},
        'plugins[0]: nothing reads a configuration of "ResourceQuota" here',
    ),
    "no file": ({**HEAD, "plugins": [plugin("Mutating", path="none")]}, "/none: No such file or directory"),
    "a relative path": (
        {**HEAD, "plugins": [plugin("Mutating", configuration={**WEBHOOKS, "kubeConfigFile": "x"})]},
        'plugins[0].configuration: kubeConfigFile: Invalid value: "x": must be an absolute file path',
    ),
    "another configuration": (
        {**HEAD, "plugins": [plugin("Mutating", configuration=HEAD)]},
        "plugins[0].configuration: kind: write apiVersion: apiserver.config.k8s.io/v1 and kind: WebhookAdmission",
    ),
}


@pytest.mark.parametrize(("tree", "why"), MISTAKES.values(), ids=list(MISTAKES))
def test_what_is_wrong_is_told_with_file_and_field(tmp_path: Path, tree: Any, why: str):
    file = written(tmp_path / "a.yaml", tree)
    with pytest.raises(AdmissionFileError) as refused:
        AdmissionConfiguration.read(file)
    (line,) = refused.value.lines
    assert line.startswith(str(tmp_path))
    assert why in line


def test_a_control_plane_does_not_begin_with_a_wrong_file(tmp_path: Path):
    configuration = {**WEBHOOKS, "kubeConfigFile": str(tmp_path / "none")}
    file = written(tmp_path / "a.yaml", {**HEAD, "plugins": [plugin("Mutating", configuration=configuration)]})
    with pytest.raises(KeywordError, match=r"cannot read the kubeconfig .*/none: No such file"):
        ControlPlane(options=ControlPlaneOptions(admission_control_config_file=file))


def users(**named: str) -> dict[str, Any]:
    listed = [{"name": name, "user": {"token": token}} for name, token in named.items()]
    return {"apiVersion": "v1", "kind": "Config", "users": listed}


def not_in_a_cluster() -> ClientConfig:
    raise ClientConfigError("no")


NAMES = {
    "a.example.com:8443": "exact",
    "b.example.com:8443": "suffix with a port",
    "b.example.com:9443": "others",
    "c.example.org:443": "without a port",
    "d.c.example.org:443": "suffix without a port",
    "hook.web.svc:443": "service",
    "hook.web.svc:8443": "others",
    "kubernetes.default.svc:443": "others",
    "127.0.0.1:1": "others",
}


def test_users_are_found_by_host(tmp_path: Path):
    named = {
        "a.example.com:8443": "exact",
        "*.example.com:8443": "suffix with a port",
        "c.example.org": "without a port",
        "*.example.org": "suffix without a port",
        "hook.web.svc": "service",
        "*": "others",
    }
    credentials = KubeconfigCredentials(written(tmp_path / "k", users(**named)), not_in_a_cluster)
    assert {host: credentials(host).token for host in NAMES} == NAMES


def test_without_a_user_for_all_the_current_context_counts_and_then_nobody(tmp_path: Path):
    tree = users(me="mine")
    credentials = KubeconfigCredentials(written(tmp_path / "k", tree), lambda: ClientConfig("", token="the pod's"))
    assert credentials("a:443").token == ""
    assert credentials("kubernetes.default.svc:443").token == "the pod's"
    tree |= {"current-context": "c", "contexts": [{"name": "c", "context": {"user": "me"}}]}
    os.utime(written(tmp_path / "k", tree), ns=(1, 1))
    assert credentials("a:443").token == "mine"


def test_a_kubeconfig_is_read_again_and_a_damaged_one_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    file = written(tmp_path / "k", users(**{"*": "first"}))
    credentials = KubeconfigCredentials(file, not_in_a_cluster)
    os.utime(written(file, users(**{"*": "second"})), ns=(1, 1))
    assert credentials("a:1").token == "second"
    file.write_text("users: 1")
    assert credentials("a:1").token == "second"
    assert "users is a list: the previous content stays in force" in caplog.text
