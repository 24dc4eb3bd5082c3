"""The default roles and bindings beside those that Kubernetes' own tests have, as YAML in its Go module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.controlplane.bootstrap.bootstrap_roles import (
    bindings,
    cluster_roles,
    namespaced_bindings,
    namespaced_roles,
)
from oarlock.codec import yaml

MODULE = Path.home() / "go/pkg/mod/k8s.io/kubernetes@v1.36.2"
TABLES = MODULE / "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
Tree = dict[str, Any]

pytestmark = pytest.mark.skipif(not TABLES.exists(), reason="the Go module k8s.io/kubernetes isn't on this machine")

OURS_ALONE = {"system:controller:storage-version-migrator-controller"}
"""StorageVersionMigrations are served here, and behind a gate there."""


def table(*files: str) -> Mapping[tuple[str, str], Tree]:
    """The objects of lists, by namespace and name."""
    lists = [yaml.decode((TABLES / f"{file}.yaml").read_bytes())[0] for file in files]
    return by_name(item for found in lists for item in found["items"])


def by_name(objects: Iterable[Tree]) -> Mapping[tuple[str, str], Tree]:
    return {
        (one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
        for one in objects
        if one["metadata"]["name"] not in OURS_ALONE
    }


def grants(role: Tree) -> set[tuple[str, ...]]:
    """What a role allows, one verb of one thing each: how rules are put together makes no difference."""
    return set(_grants(role.get("rules") or ()))


def _grants(rules: Iterable[Tree]) -> Iterator[tuple[str, ...]]:
    for rule in rules:
        for verb in rule["verbs"]:
            yield from ((verb, url) for url in rule.get("nonResourceURLs") or ())
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    yield from ((verb, group, resource, name) for name in rule.get("resourceNames") or ("",))


def shown_role(role: Tree) -> tuple[Any, ...]:
    metadata = role["metadata"]
    return grants(role), metadata.get("labels"), metadata.get("annotations"), role.get("aggregationRule")


def shown_binding(binding: Tree) -> tuple[Any, ...]:
    subjects = sorted(sorted(subject.items()) for subject in binding.get("subjects") or ())
    return subjects, binding["roleRef"], binding["metadata"].get("labels"), binding["metadata"].get("annotations")


def test_roles_allow_what_those_of_kubernetes_allow() -> None:
    theirs = table("cluster-roles", "controller-roles", "namespace-roles")
    ours = by_name([*cluster_roles(), *namespaced_roles()])
    assert len(theirs) > 60
    assert {key: shown_role(role) for key, role in ours.items()} == {
        key: shown_role(role) for key, role in theirs.items()
    }


def test_bindings_give_roles_to_those_who_have_them_in_kubernetes() -> None:
    theirs = table("cluster-role-bindings", "controller-role-bindings", "namespace-role-bindings")
    ours = by_name([*bindings(), *namespaced_bindings()])
    assert {key: shown_binding(binding) for key, binding in ours.items()} == {
        key: shown_binding(binding) for key, binding in theirs.items()
    }
