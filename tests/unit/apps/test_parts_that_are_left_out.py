"""``disable`` and ``controllers`` of a control plane: what is left out, and what a wrong name is told."""

from __future__ import annotations

import pytest
from crd_kit import definition, established

from oarlock.apps.controllers.certificates.signing import SigningController
from oarlock.apps.controllers.definitions.status import DefinitionNaming, InstanceDeletion
from oarlock.apps.controllers.flow_control import FlowControl
from oarlock.apps.controllers.garbage.collector import GarbageCollector
from oarlock.apps.controllers.leading import Leadership, OwnController
from oarlock.apps.controllers.namespaces import NamespaceDeletion, RootCaPublisher
from oarlock.apps.controllers.own_objects import Upkeep
from oarlock.apps.controllers.quota.recount import QuotaRecount
from oarlock.apps.controllers.role_aggregation import RoleAggregation
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.options.option import ConfigError
from oarlock.testing import InMemory, VirtualClock


def controllers(server: ControlPlane) -> set[type]:
    own = (one.controller if isinstance(one, OwnController) else one for one in server.controllers)
    return {type(one) for one in own} - {Leadership}


@pytest.mark.anyio
async def test_a_part_is_left_out() -> None:
    async with InMemory(ControlPlane(disable=["flowcontrol"])) as api:
        groups = {one["name"] for one in (await api.get("/apis")).json["groups"]}
        assert "flowcontrol.apiserver.k8s.io" not in groups
        assert "rbac.authorization.k8s.io" in groups


def test_no_controller_runs() -> None:
    assert controllers(ControlPlane(disable=["controllers"])) == set()


@pytest.mark.parametrize("name", ["namespace-controller", "namespace"])
def test_one_controller_is_left_out(name: str) -> None:
    left = controllers(ControlPlane(disable=[name]))
    assert NamespaceDeletion not in left
    assert RoleAggregation in left
    assert left == controllers(ControlPlane(options=ControlPlaneOptions(controllers=("*", f"-{name}"))))


def test_only_one_controller_runs() -> None:
    """Of those of kube-controller-manager: what kube-apiserver runs isn't ended by its list."""
    server = ControlPlane(options=ControlPlaneOptions(controllers=("clusterrole-aggregation",)))
    left = controllers(server)
    assert {RoleAggregation, DefinitionNaming, InstanceDeletion, FlowControl, Upkeep} <= left
    every = controllers(ControlPlane())
    assert {NamespaceDeletion, GarbageCollector, QuotaRecount, SigningController, RootCaPublisher} <= every - left
    assert controllers(ControlPlane(options=ControlPlaneOptions(controllers=("-namespace",)))) == left - {
        RoleAggregation
    }


@pytest.mark.anyio
async def test_definitions_are_served_whatever_controllers_run() -> None:
    options = ControlPlaneOptions(controllers=("namespace",))
    async with InMemory(ControlPlane(options=options), clock=VirtualClock()) as api:
        await established(api, definition())
        assert (await api.get("/apis/names.example.com/v1")).status == 200


@pytest.mark.parametrize(
    ("disable", "listed", "told"),
    [
        (
            ("flowcontrl",),
            ("*",),
            "disable=flowcontrl (isn't a part or a controller: did you mean 'flowcontrol'?)",
        ),
        (("namespaces",), ("*",), "disable=namespaces (identities needs it: disable identities, too)"),
        (
            (),
            ("*", "-namespce"),
            "controllers=-namespce (isn't a controller: did you mean 'namespace'?)",
        ),
        (
            (),
            ("*", "-crd-serving"),
            "controllers=-crd-serving (it isn't one of kube-controller-manager's: leave it out",
        ),
        ((), ("replicaset",), "controllers=replicaset (isn't a controller: there are "),
    ],
)
def test_a_wrong_name_is_told(disable: tuple[str, ...], listed: tuple[str, ...], told: str) -> None:
    with pytest.raises(KeywordError) as raised:
        ControlPlane(disable=disable, options=ControlPlaneOptions(controllers=listed))
    assert f"ControlPlane: {told}" in str(raised.value)


def test_parts_and_controllers_are_listed_apart_where_a_name_is_like_none() -> None:
    with pytest.raises(KeywordError, match="; the controllers are ") as raised:
        ControlPlane(disable=["foo"])
    parts, _, controllers = str(raised.value).partition("; the controllers are ")
    assert "the parts are access, aggregation, " in parts
    assert "-controller" not in parts
    assert controllers.startswith("admission-webhooks, apiserver-identity-lease-controller, ")


def test_wrong_addresses_are_told() -> None:
    with pytest.raises(ConfigError) as raised:
        ControlPlaneOptions(service_cluster_ip_range="10.0.0.1/24", advertise_address="here")
    assert raised.value.lines == (
        "service_cluster_ip_range: 10.0.0.1/24 has host bits set; write 10.0.0.0/24",
        "advertise_address: 'here' does not appear to be an IPv4 or IPv6 address",
    )
