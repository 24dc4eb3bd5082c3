"""The admission plugins of a control plane: names, order, what switches them, and the place of users'."""

from __future__ import annotations

import pytest

from oarlock import Admission, APIServer, DeclarationError, PlacedPlugin, Resource, Review
from oarlock.apps.controlplane.control_plane import ControlPlane, PluginSwitchError
from oarlock.apps.controlplane.options import OFF_BY_DEFAULT, ORDERED_PLUGINS, ControlPlaneOptions
from oarlock.policy.admission.chain import plugin_name
from oarlock.policy.admission.plugin import AnyPlugin


class Prices(Admission[Resource]):
    async def validate(self, review: Review[Resource]) -> None:
        return None


class Taxes(Prices):
    pass


class PodNodeSelector(Prices):
    """What Kubernetes calls so isn't built here."""


class NamespaceLifecycle(Prices):
    """What Kubernetes calls so is built here."""


def names(*admission: AnyPlugin | PlacedPlugin, options: ControlPlaneOptions | None = None) -> list[str]:
    return [plugin_name(one) for one in ControlPlane(admission=admission, options=options).admission]


def neighbours(name: str, listed: list[str]) -> tuple[str, str]:
    at = listed.index(name)
    return listed[at - 1], listed[at + 1]


def test_kubernetes_plugins_are_asked_in_its_order_after_what_belongs_to_a_kind() -> None:
    listed = names(options=ControlPlaneOptions(enable_admission_plugins=("OwnerReferencesPermissionEnforcement",)))
    kubernetes = [name for name in listed if name in ORDERED_PLUGINS]
    assert kubernetes == [name for name in ORDERED_PLUGINS if name in kubernetes]
    assert listed[-len(kubernetes) :] == kubernetes
    assert {"NamespaceLifecycle", "LimitRanger", "OwnerReferencesPermissionEnforcement"} <= {*kubernetes}


def test_what_is_off_by_default_is_off_unless_it_is_enabled() -> None:
    assert not OFF_BY_DEFAULT & {*names()}
    assert {*ORDERED_PLUGINS} > OFF_BY_DEFAULT


def test_a_users_plugins_come_before_policies_and_webhooks_in_the_order_of_the_list() -> None:
    listed = names(Taxes(), Prices())
    later = ORDERED_PLUGINS[ORDERED_PLUGINS.index("MutatingAdmissionPolicy") :]
    at = listed.index("Taxes")
    assert listed[at : at + 2] == ["Taxes", "Prices"]
    assert {*listed[at + 2 :]} <= {*later}
    assert not {*listed[:at]} & {*later}


def test_a_users_plugin_is_placed_beside_another() -> None:
    placed = names(PlacedPlugin(Prices(), before="LimitRanger"), PlacedPlugin(Taxes(), after="ResourceQuota"))
    assert neighbours("Prices", placed) == ("NamespaceLifecycle", "LimitRanger")
    assert placed[-2:] == ["ResourceQuota", "Taxes"]


def test_several_beside_one_are_asked_as_they_are_listed() -> None:
    before = names(PlacedPlugin(Prices(), before="LimitRanger"), PlacedPlugin(Taxes(), before="LimitRanger"))
    assert neighbours("Taxes", before) == ("Prices", "LimitRanger")
    after = names(PlacedPlugin(Prices(), after="LimitRanger"), PlacedPlugin(Taxes(), after="LimitRanger"))
    assert neighbours("Prices", after) == ("LimitRanger", "Taxes")


def test_a_place_may_be_beside_another_users_plugin_or_one_that_is_not_here() -> None:
    beside = names(PlacedPlugin(Taxes(), after="Prices"), PlacedPlugin(Prices(), before="LimitRanger"))
    assert neighbours("Taxes", beside) == ("Prices", "LimitRanger")
    absent = names(PlacedPlugin(Prices(), before="NamespaceExists"))
    assert neighbours("Prices", absent) == ("NamespaceLifecycle", "LimitRanger")


def test_a_users_plugin_may_be_what_kubernetes_has_and_is_not_here() -> None:
    listed = names(PodNodeSelector())
    at = ORDERED_PLUGINS.index("PodNodeSelector")
    assert {*listed[: listed.index("PodNodeSelector")]} & {*ORDERED_PLUGINS} <= {*ORDERED_PLUGINS[:at]}


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        (PlacedPlugin(Prices(), before="LimitRange"), "there is no such plugin .did you mean 'LimitRanger'"),
        (PlacedPlugin(Prices(), before="Prices"), "its place depends on its own"),
        (NamespaceLifecycle(), "there is a plugin NamespaceLifecycle already"),
    ],
)
def test_a_plugin_without_a_place_is_refused(plugin: AnyPlugin | PlacedPlugin, told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        names(plugin)


def test_a_place_is_before_or_after() -> None:
    with pytest.raises(DeclarationError, match="say one of before= and after="):
        PlacedPlugin(Prices(), before="A", after="B")


def test_a_server_of_ones_own_places_its_plugins_too() -> None:
    server = APIServer(serve=[], admission=[Prices(), PlacedPlugin(Taxes(), before="Prices")])
    assert [*map(plugin_name, server.admission)] == ["Taxes", "Prices"]


def test_a_users_plugin_is_disabled_by_its_name() -> None:
    assert "Prices" not in names(Prices(), Taxes(), options=ControlPlaneOptions(disable_admission_plugins=("Prices",)))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ControlPlaneOptions(enable_admission_plugins=("Nothing",), disable_admission_plugins=("NoSuch",)),
            [
                'enable-admission-plugins plugin "Nothing" is unknown',
                'disable-admission-plugins plugin "NoSuch" is unknown',
            ],
        ),
        (
            ControlPlaneOptions(
                enable_admission_plugins=("ResourceQuota", "LimitRanger"),
                disable_admission_plugins=("ResourceQuota", "LimitRanger"),
            ),
            ["[LimitRanger ResourceQuota] in enable-admission-plugins and disable-admission-plugins overlapped"],
        ),
        (
            ControlPlaneOptions(admission_control=("ResourceQuota", "X"), enable_admission_plugins=("LimitRanger",)),
            [
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
                'admission-control plugin "X" is unknown',
            ],
        ),
    ],
)
def test_wrong_names_are_told_as_by_kube_apiserver(options: ControlPlaneOptions, told: list[str]) -> None:
    with pytest.raises(DeclarationError) as raised:
        ControlPlane(options=options)
    assert isinstance(raised.value.__cause__, PluginSwitchError)
    assert list(raised.value.__cause__.lines) == told


def test_admission_control_says_the_whole_list() -> None:
    listed = names(Prices(), options=ControlPlaneOptions(admission_control=("ResourceQuota", "NamespaceLifecycle")))
    assert [name for name in listed if name in ORDERED_PLUGINS] == ["NamespaceLifecycle", "ResourceQuota"]
    assert "Prices" not in listed
