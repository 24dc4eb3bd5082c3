"""``kubectl auth`` and ``kubectl create role`` at a control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubectl import Kubectl
from server_process import ServerProcess

RECONCILED = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: readers}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "roles" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("roles"), program, "memory://") as server:
        yield server


@pytest.mark.slow
def test_who_may_do_what(kubectl_at: Callable[[ServerProcess], Kubectl], plane: ServerProcess) -> None:
    kubectl = kubectl_at(plane)
    kubectl("delete", "clusterrole/readers", "rolebinding/ann", "-n", "default", "--ignore-not-found")
    kubectl("create", "clusterrole", "readers", "--verb=get,list", "--resource=configmaps")
    ann = ("-n", "default", "--as", "ann")
    assert kubectl.fails("auth", "can-i", "list", "configmaps", *ann) is not None
    kubectl("create", "rolebinding", "ann", "--clusterrole=readers", "--user=ann", "-n", "default")
    assert kubectl("auth", "can-i", "list", "configmaps", *ann).lines[-1] == "yes"
    assert kubectl.run("auth", "can-i", "delete", "configmaps", *ann).lines[-1] == "no"
    listed = kubectl("auth", "can-i", "--list", *ann).out
    assert "configmaps" in listed
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed
    kubectl("auth", "reconcile", "-f", "-", stdin=RECONCILED)
    assert kubectl("auth", "can-i", "get", "secrets", *ann).lines[-1] == "yes"
    assert 'User "ann" cannot create resource "configmaps"' in kubectl.fails("create", "configmap", "a", *ann)


@pytest.mark.slow
def test_a_group_that_somebody_is_carried_out_as(
    kubectl_at: Callable[[ServerProcess], Kubectl], plane: ServerProcess
) -> None:
    kubectl = kubectl_at(plane)
    kubectl("delete", "role/writers", "rolebinding/devs", "-n", "default", "--ignore-not-found")
    kubectl("create", "role", "writers", "--verb=create,get,list", "--resource=configmaps", "-n", "default")
    kubectl("create", "rolebinding", "devs", "--role=writers", "--group=dev", "-n", "default")
    bob = ("-n", "default", "--as", "bob")
    assert kubectl.run("auth", "can-i", "create", "configmaps", *bob).lines[-1] == "no"
    assert kubectl("auth", "can-i", "create", "configmaps", *bob, "--as-group", "dev").lines[-1] == "yes"
    kubectl("create", "configmap", "of-devs", *bob, "--as-group", "dev", "--as-group", "ops")
    assert 'User "bob" cannot get resource "configmaps"' in kubectl.fails("get", "configmap", "of-devs", *bob)
    # what the group may do, it can't grant to others
    more = ("create", "role", "more", "--verb=delete", "--resource=secrets", *bob, "--as-group", "dev")
    assert "cannot create resource" in kubectl.fails(*more)
    kubectl("delete", "configmap", "of-devs", "-n", "default")
