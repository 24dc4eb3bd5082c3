"""The admission plugin OwnerReferencesPermissionEnforcement: who may set owners of objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
PLUGIN = "OwnerReferencesPermissionEnforcement"
NO_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
NO_FINALIZERS = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
)


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    options = ControlPlaneOptions(enable_admission_plugins=(PLUGIN,))
    async with InMemory(ControlPlane(disable=["controllers"], options=options)) as server:
        yield server


async def allow(api: InMemory, name: str, verbs: str, resource: str) -> None:
    rules = [{"verbs": verbs.split(), "apiGroups": [""], "resources": [resource]}]
    assert (await api.post(f"{RBAC}/roles", {"metadata": {"name": name}, "rules": rules})).status == 201
    subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    assert (await api.post(f"{RBAC}/rolebindings", bound)).status == 201


async def alice(api: InMemory, method: str, path: str, body: Any) -> tuple[int, str]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.request(method, path, body, {"impersonate-user": "alice", "content-type": kind})
    return answer.status, answer.json.get("message", "")


def owner(kind: str = "ConfigMap", *, blocks: bool = False, uid: str = "u") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": "o", "uid": uid, "blockOwnerDeletion": blocks}


def owned(name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [*owners]}}


def refused(name: str, why: str) -> tuple[int, str]:
    return 403, f'configmaps "{name}" is forbidden: {why}'


async def test_owners_are_changed_by_who_may_delete(api: InMemory) -> None:
    await allow(api, "write", "create patch", "configmaps")
    assert await alice(api, "POST", MAPS, owned("a", owner())) == (201, "")
    assert await alice(api, "PATCH", f"{MAPS}/a", {"data": {"k": "v"}}) == (200, "")
    assert await alice(api, "PATCH", f"{MAPS}/a", owned("a", owner(uid="v"))) == refused("a", NO_DELETE)
    assert await alice(api, "PATCH", f"{MAPS}/a", owned("a")) == refused("a", NO_DELETE)
    await allow(api, "delete", "delete", "configmaps")
    assert await alice(api, "PATCH", f"{MAPS}/a", owned("a", owner(uid="v"))) == (200, "")


async def test_owners_that_wait_are_set_by_who_may_finalize_them(api: InMemory) -> None:
    await allow(api, "write", "create patch delete", "configmaps")
    assert await alice(api, "POST", MAPS, owned("a", owner(blocks=True))) == refused("a", NO_FINALIZERS)
    assert await alice(api, "POST", MAPS, owned("a", owner())) == (201, "")
    assert await alice(api, "PATCH", f"{MAPS}/a", owned("a", owner(blocks=True))) == refused("a", NO_FINALIZERS)
    unknown = 'APIVersion v1 Kind Ship: no matches for kind "Ship" in version "v1"'
    why = f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for {unknown}"
    assert await alice(api, "POST", MAPS, owned("b", owner("Ship", blocks=True))) == refused("b", why)
    await allow(api, "finalize", "update", "configmaps/finalizers")
    assert await alice(api, "POST", MAPS, owned("b", owner(blocks=True))) == (201, "")
    assert await alice(api, "PATCH", f"{MAPS}/a", owned("a", owner(blocks=True))) == (200, "")
    secret = owned("c", owner("Secret", blocks=True))
    assert await alice(api, "POST", MAPS, secret) == refused("c", NO_FINALIZERS)


async def test_it_is_off_unless_it_is_enabled() -> None:
    async with InMemory(ControlPlane(disable=["controllers"])) as api:
        await allow(api, "write", "create", "configmaps")
        assert await alice(api, "POST", MAPS, owned("a", owner(blocks=True))) == (201, "")
