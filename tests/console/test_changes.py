"""Objects are changed: tried by the server first, what would change is shown, and others keep their fields."""

from __future__ import annotations

import json
from typing import Any

from browser import Browser, Page
from console_kit import Plane, unreadable


def config_map(namespace: str, name: str, data: dict[str, str]) -> str:
    """As it may be written in the editor: JSON is YAML."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
    return json.dumps(body, indent=1)


def data_of(plane: Plane, namespace: str, name: str) -> Any:
    return plane.client().get(f"/api/v1/namespaces/{namespace}/configmaps/{name}").json.get("data")


def test_an_edit_is_tried_while_it_is_typed_shown_as_a_difference_and_written(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "course", {"to": "north"})
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/course?tab=edit")
    page.wait_for(".outcome", "Not changed")
    page.edit("a: [")
    page.wait_for(".outcome.unreadable", "This is no YAML")
    page.choose("[aria-label='How to write']", "replace")
    page.edit(config_map(namespace, "course", {"to": "east", "not a key": "x"}))
    page.wait_for(".outcome.refused", "The server would refuse this")
    page.wait_for(".problem", "a valid config key must consist of")
    page.until("document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')")
    page.edit(config_map(namespace, "course", {"to": "east"}))
    page.wait_for(".outcome.fine", "The server would take this")
    page.wait_for(".diff .removed", "to: north")
    page.wait_for(".diff .added", "to: east")
    assert unreadable(page) == []
    assert data_of(plane, namespace, "course") == {"to": "north"}
    page.click(".actions .primary", "Replace")
    page.wait_for(".toast", "ConfigMap course is written")
    assert data_of(plane, namespace, "course") == {"to": "east"}


def test_a_field_that_is_unknown_is_shown_where_it_is(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "a", {})
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/a?tab=edit")
    text = config_map(namespace, "a", {}).replace('"data"', '"date"')
    page.choose("[aria-label='How to write']", "replace")
    page.edit(text)
    page.wait_for(".problem", 'unknown field "date"')
    marked = "document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')?.innerText"
    page.until(f"{marked} === '\"date\"'")


def test_a_rule_in_cel_is_told_where_it_is_broken(page: Page, plane: Plane) -> None:
    group = "rules.example.com"
    rule = {"rule": "self <= 5", "message": "a boat has five sails at most"}
    sails = {"type": "integer", "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"sails": sails}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "boats", "kind": "Boat"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    plane.create(path, {"metadata": {"name": f"boats.{group}"}, "spec": spec})
    plane.until(lambda: plane.client().get(f"/apis/{group}/v1/boats").status == 200)
    page.run("location.reload()")
    plane.log_in(page)
    plane.open(page, f"#/create/{group}/v1/boats")
    body = {"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": {"name": "a"}, "sails": 9}
    page.edit(json.dumps(body, indent=1))
    page.wait_for(".problem", "sails: Invalid value: 9: a boat has five sails at most")
    marked = "document.querySelector('.editor').shadowRoot.querySelector('.cm-lintRange-error')?.innerText"
    page.until(f"{marked} === '\"sails\"'")


def test_fields_of_others_are_taken_only_by_who_says_so(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.create(f"{path}?fieldManager=harbourmaster", {"metadata": {"name": "b"}, "data": {"to": "north"}})
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/b?tab=edit")
    page.wait_for(".outcome", "Not changed")
    page.edit(config_map(namespace, "b", {"to": "west"}))
    page.wait_for(".conflicts", "harbourmaster has .data.to")
    assert page.run("document.querySelector('.actions .primary').disabled") is True
    page.click(".conflicts input")
    page.click(".actions .primary", "Apply by force")
    page.wait_for(".toast", "ConfigMap b is written")
    assert data_of(plane, namespace, "b") == {"to": "west"}


def test_what_others_write_meanwhile_is_told(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "c", {"to": "north"})
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/c?tab=edit")
    page.wait_for(".outcome", "Not changed")
    path = f"/api/v1/namespaces/{namespace}/configmaps/c"
    assert plane.client().patch(path, {"data": {"to": "south"}}).status == 200
    page.wait_for(".newer", "Somebody has written it meanwhile")
    page.click(".newer button")
    page.gone(".newer")
    page.until("document.querySelector('.editor').shadowRoot.textContent.includes('south')")


def test_an_object_is_created_from_the_kinds_example(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.open(page, f"#/list/apps/v1/deployments?ns={namespace}")
    page.wait_for(".live.live")
    page.press("n")
    page.wait_for("h1", "Create Deployment")
    page.until("document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')?.innerText")
    example = page.editor()
    assert f"namespace: {namespace}" in example
    assert "selector:" in example
    assert "# replicas: integer" in example
    plane.open(page, f"#/create/_/v1/configmaps?ns={namespace}")
    page.wait_for("h1", "Create ConfigMap")
    page.edit(config_map(namespace, "made", {"by": "hand"}))
    page.wait_for(".outcome.fine")
    page.click(".actions .primary", "Create")
    page.wait_for("h1", "made")
    assert data_of(plane, namespace, "made") == {"by": "hand"}


def test_a_deployment_is_scaled(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    plane.create(path, {"metadata": {"name": "web"}, "spec": spec})
    plane.open(page, f"#/object/apps/v1/deployments/{namespace}/web")
    page.click(".buttons button", "Scale")
    page.until("document.querySelector('dialog input')?.value === '1'")
    page.fill("dialog input", "5")
    page.click("dialog .primary", "Scale")
    page.wait_for(".toast", "web is scaled to 5")
    assert plane.client().get(f"{path}/web").json["spec"]["replicas"] == 5


def test_a_deletion_says_what_goes_with_it(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    uid = plane.config_map(namespace, "harbour")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "harbour", "uid": uid}
    plane.config_map(namespace, "boat", ownerReferences=[owner])
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/harbour?ns={namespace}")
    page.click(".buttons button", "Delete")
    page.wait_for("dialog .going", "1 go with it")
    page.wait_for("dialog .tree a", "boat")
    page.click("dialog .choice input[type=radio]:not(:checked)")
    page.click("dialog .choice:last-of-type input")
    page.wait_for("dialog .going", "1 that belong to it stay")
    page.click("dialog footer .danger", "Delete")
    page.wait_for(".toast", "ConfigMap harbour is deleted")
    page.wait_for(".row a", "boat")
    page.until("![...document.querySelectorAll('.row a')].some((one) => one.innerText === 'harbour')")


def test_many_are_labelled_and_deleted_at_once(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    for name in ("one", "two", "three"):
        plane.config_map(namespace, name, labels={"pick": "yes"})
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.open(page, f"#/list/_/v1/configmaps?ns={namespace}&label=pick%3Dyes")
    page.wait_for(".live .count", "3")
    page.click(".row.head .pick input")
    page.wait_for(".selection", "3 selected")
    page.click(".selection button", "Labels")
    page.fill("dialog input[list]", "fleet")
    page.fill("dialog label:not(.check):nth-of-type(2) input", "north")
    page.click("dialog footer .primary", "Set")
    page.wait_for(".toast", "Done for 3")
    labelled = plane.client().get(f"{path}?labelSelector=fleet%3Dnorth").json["items"]
    assert len(labelled) == 3
    page.click(".selection button", "Delete")
    page.wait_for("dialog .names", "three")
    page.click("dialog footer .danger", "Delete")
    page.wait_for(".empty", "There are no configmaps")
    assert plane.client().get(f"{path}?labelSelector=pick").json["items"] == []


def test_each_refusal_of_many_is_said(browser: Browser, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "kept")
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    plane.create(f"{rbac}/roles", {"metadata": {"name": "look"}, "rules": rules})
    subject = {"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "look", "apiGroup": "rbac.authorization.k8s.io"}
    plane.create(f"{rbac}/rolebindings", {"metadata": {"name": "look"}, "roleRef": role, "subjects": [subject]})
    with browser.page(plane.console) as page:
        plane.log_in(page, "viewer")
        plane.open(page, f"#/list/_/v1/configmaps?ns={namespace}&q=kept")
        page.wait_for(".row a", "kept")
        page.click(".row.head .pick input")
        page.click(".selection button", "Delete")
        page.click("dialog footer .danger", "Delete")
        page.wait_for("dialog .problem", 'kept: configmaps "kept" is forbidden: User "viewer" cannot delete resource')
        assert page.problems == []
