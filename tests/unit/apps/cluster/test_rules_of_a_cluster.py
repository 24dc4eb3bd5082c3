"""The admission rules of a cluster hold in a server behind it; the cluster is a control plane here, over HTTPS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from boats_behind_a_cluster import Boat, behind, boat, cluster_in

from oarlock.client.client import Client
from oarlock.meta import errors
from oarlock.server.assembly.run import Running
from oarlock.server.options.option import ConfigError

pytestmark = pytest.mark.anyio
REGISTRATION = "admissionregistration.k8s.io/v1"


async def refused(client: Client, name: str, namespace: str = "default") -> str:
    """Why it can't be created; empty if it can."""
    try:
        await client.create(boat(name, namespace))
    except errors.StatusError as error:
        return error.message
    return ""


POLICY = {
    "apiVersion": REGISTRATION,
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-evil"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["boats"]}
            ]
        },
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "!object.metadata.name.startsWith(params.data.prefix)"}],
    },
}
BINDING = {
    "apiVersion": REGISTRATION,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-evil"},
    "spec": {
        "policyName": "no-evil",
        "validationActions": ["Deny"],
        "paramRef": {"name": "words", "namespace": "default", "parameterNotFoundAction": "Deny"},
    },
}
MUTATING_POLICY = {
    "apiVersion": REGISTRATION,
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "flags"},
    "spec": {
        "matchConstraints": POLICY["spec"]["matchConstraints"],  # type: ignore[index]
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": '[JSONPatch{op: "replace", path: "/spec/sails", value: 7}]'},
            }
        ],
    },
}
MUTATING_BINDING = {
    "apiVersion": REGISTRATION,
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "flags"},
    "spec": {"policyName": "flags"},
}
DEAD_WEBHOOK = {
    "apiVersion": REGISTRATION,
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "dead"},
    "webhooks": [
        {
            "name": "dead.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "nowhere"}},
            "rules": [
                {"apiGroups": ["boats.example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
            ],
            "objectSelector": {"matchLabels": {"asked": "yes"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


async def test_what_a_cluster_refuses_is_refused_behind_it(cluster: Running, tmp_path: Path) -> None:
    admin = cluster.client(None, "test")
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    await admin.create(held, namespace="leaving")
    await admin.delete("v1/Namespace", "leaving")
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"prefix": "evil"}}
    await admin.create(words, namespace="default")
    for tree in (POLICY, BINDING, MUTATING_POLICY, MUTATING_BINDING, DEAD_WEBHOOK):
        await admin.create(tree)
    async with behind(tmp_path) as running:
        client = running.client(None, "test")
        assert not await refused(client, "good")
        assert (await client.get(Boat, "good", namespace="default")).spec.sails == 7
        assert await refused(client, "a", "nowhere") == 'namespaces "nowhere" not found'
        assert "is being terminated" in await refused(client, "a", "leaving")
        assert "ValidatingAdmissionPolicy 'no-evil'" in await refused(client, "evil-a")
        asked = boat("asked")
        asked.metadata.labels = {"asked": "yes"}
        with pytest.raises(errors.InternalError, match=r'failed calling webhook "dead\.example\.com"'):
            await client.create(asked)
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
        assert not await refused(client, "a", "new")


async def test_what_is_in_a_namespace_that_goes_may_be_changed_and_deleted(cluster: Running, tmp_path: Path) -> None:
    """Or nobody could take a finalizer off, and the namespace would stay for ever."""
    admin = cluster.client(None, "test")
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})
    await admin.create(held, namespace="leaving")
    async with behind(tmp_path) as running:
        client = running.client(None, "test")
        made = boat("a", "leaving")
        made.metadata.finalizers = ["example.com/hold"]
        await client.create(made)
        await admin.delete("v1/Namespace", "leaving")
        await client.delete(Boat, "a", namespace="leaving")
        async with asyncio.timeout(30):
            while "is being terminated" not in await refused(client, "b", "leaving"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await client.patch(Boat, "a", {"metadata": {"finalizers": None}}, namespace="leaving")
        with pytest.raises(errors.NotFound):
            await client.get(Boat, "a", namespace="leaving")


async def test_plugins_are_switched_by_name(cluster: Running, tmp_path: Path) -> None:
    async with behind(tmp_path, disable_admission_plugins=("NamespaceLifecycle",)) as running:
        assert not await refused(running.client(None, "test"), "a", "nowhere")
    with pytest.raises(ConfigError, match='plugin "Nothing" is unknown'):
        async with behind(tmp_path, disable_admission_plugins=("Nothing",)):
            pass


async def test_rules_that_grow_old_let_nothing_be_written(tmp_path: Path) -> None:
    cluster = await cluster_in(tmp_path)
    async with behind(tmp_path) as running:
        client, rules = running.client(None, "test"), running.parts.server.cluster_rules
        assert rules is not None
        assert not await refused(client, "before")
        assert not rules.unknown()
        await cluster.shut_down()
        assert not await refused(client, "meanwhile")
        rules._max_age_s = -1.0  # type: ignore[attr-defined]
        why = await refused(client, "after")
        assert why.startswith("nothing can be written at the moment: the rules of the cluster in")
        assert {found.metadata.name async for found in client.list(Boat, namespace="default")} == {
            "before",
            "meanwhile",
        }
        with pytest.raises(errors.StatusError):
            await client.request("GET", "/readyz/cluster-rules")


async def test_a_server_starts_before_its_cluster_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("oarlock.apps.admission.cluster.FIRST_LOOK_S", 0.05)
    cluster = await cluster_in(tmp_path)
    await cluster.shut_down()
    async with behind(tmp_path) as running:
        assert "aren't known" in await refused(running.client(None, "test"), "a")
    assert "aren't known" in caplog.text


async def test_a_cluster_without_some_kinds_has_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As an older one, which doesn't serve MutatingAdmissionPolicy."""
    monkeypatch.setattr("oarlock.apps.admission.cluster.LOOK_S", 0.05)
    cluster = await cluster_in(tmp_path, disable=["policies"])
    try:
        async with behind(tmp_path) as running:
            client = running.client(None, "test")
            assert not await refused(client, "a")
            assert 'namespaces "nowhere" not found' in await refused(client, "a", "nowhere")
    finally:
        await cluster.shut_down()
    assert "has no MutatingAdmissionPolicy in admissionregistration.k8s.io/v1" in caplog.text
