"""One object: its YAML with types and managers, its state, what belongs to it, and how it was."""

from __future__ import annotations

from browser import Browser, Page
from console_kit import EVIL, Plane, unreadable

IN_EDITOR = "document.querySelector('.editor').shadowRoot"


def deployment(plane: Plane, namespace: str) -> str:
    """A deployment named web, with a field that another manager has: its path."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    meta = {"name": "web", "annotations": {"note": EVIL}}
    plane.create(f"{path}?fieldManager=maker", {"metadata": meta, "spec": spec})
    answer = plane.client().patch(f"{path}/web?fieldManager=scaler", {"spec": {"replicas": 3}})
    assert answer.status == 200, answer.json
    return f"{path}/web"


def hint_about(page: Page, line: str) -> str:
    """What is shown about the first line of the editor that begins with this, once the pointer is on it.

    Lines move while the page is still being painted, so the pointer follows until it is on the line.
    """
    find = f"[...{IN_EDITOR}.querySelectorAll('.cm-line')].find((one) => one.innerText.trim().startsWith({line!r}))"
    page.until(find, f"a line {line}")
    place = (
        f"(() => {{ const range = document.createRange(); range.selectNodeContents({find});"
        " const box = [...range.getClientRects()].at(-1); return [box.left + 4, box.top + box.height / 2]; })()"
    )
    hint_now = f"{IN_EDITOR}.querySelector('.cm-hint')?.innerText ?? ''"
    for _ in range(40):
        x, y = page.run(place)
        page.hover(x + 1, y)
        page.hover(x, y)
        hint = str(page.run(f"new Promise((told) => setTimeout(() => told({hint_now}), 700))"))
        if line.partition(":")[0] in hint:
            return hint
    raise AssertionError(f"nothing is shown about {line}\n{page.text()}")


def test_fields_are_explained_and_coloured_by_their_managers(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    deployment(plane, namespace)
    plane.open(page, f"#/object/apps/v1/deployments/{namespace}/web")
    page.wait_for(".managers li", "maker")
    page.wait_for(".managers li", "scaler 1 field")
    page.wait_for(".yaml-view[data-schemas=loaded]")
    shown = hint_about(page, "replicas: 3")
    assert "Number of desired pods" in shown
    assert "spec.replicas" in shown
    assert "integer (int32)" in shown
    assert "set by scaler (Update)" in shown
    line = f"[...{IN_EDITOR}.querySelectorAll('.cm-line')].find((one) => one.innerText.includes('replicas: 3'))"
    assert "cm-manager-1" in page.run(f"{line}.className")
    assert page.run(f"{IN_EDITOR}.querySelectorAll('img, script').length") == 0
    assert EVIL in page.editor()


def test_an_object_is_current_and_its_state_and_events_are_told(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    path = deployment(plane, namespace)
    plane.open(page, f"#/object/apps/v1/deployments/{namespace}/web?tab=state")
    page.wait_for(".panel", "It has none.")
    page.wait_for(".annotations dd", EVIL)
    condition = {"type": "Available", "status": "False", "reason": "TooFew", "message": "not enough pods"}
    assert plane.client().patch(f"{path}/status", {"status": {"conditions": [condition]}}).status == 200
    page.wait_for(".conditions", "not enough pods")
    page.wait_for(".conditions .state.bad", "False")
    about = {"kind": "Deployment", "namespace": namespace, "name": "web"}
    about["uid"] = plane.client().get(path).json["metadata"]["uid"]
    event = {
        "metadata": {"name": "told"},
        "involvedObject": about,
        "reason": "Scaled",
        "message": EVIL,
        "type": "Normal",
    }
    plane.create(f"/api/v1/namespaces/{namespace}/events", event)
    page.wait_for("table.plain td", EVIL)
    assert unreadable(page) == []
    assert plane.client().delete(path).status == 200
    page.wait_for("h1 ~ .state.bad", "deleted")


def test_owners_and_dependents_are_a_graph(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    uid = plane.config_map(namespace, "harbour")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "harbour", "uid": uid}
    boat = plane.config_map(namespace, "boat", ownerReferences=[owner])
    below = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boat", "uid": boat["metadata"]["uid"]}
    plane.create(
        f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "compass", "ownerReferences": [below]}}
    )
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/harbour?tab=relations")
    page.wait_for(".tree > ul > li > a", "boat")
    page.wait_for(".tree > ul > li > ul a", "Secret compass")
    page.click(".tree a", "boat")
    page.wait_for("h1", "boat")
    page.click(".tabs a", "Owners and dependents")
    page.wait_for(".owners a", "harbour")


def test_revisions_are_compared(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "log", {"course": "north"})
    path = f"/api/v1/namespaces/{namespace}/configmaps/log"
    for course in ("east", "south"):
        assert plane.client().patch(path, {"data": {"course": course}}).status == 200
    plane.open(page, f"#/object/_/v1/configmaps/{namespace}/log?tab=revisions")
    page.until("document.querySelectorAll('.pickers label:first-child option').length === 3")
    page.wait_for(".diff .removed", "course: east")
    page.wait_for(".diff .added", "course: south")
    first = page.run("document.querySelector('.pickers label:first-child option:last-child').value")
    page.choose(".pickers label:first-child select", first)
    page.wait_for(".diff .removed", "course: north")


def test_what_may_not_be_read_is_said(browser: Browser, plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "secret-course")
    with browser.page(plane.console) as page:
        plane.log_in(page, "stranger")
        plane.open(page, f"#/object/_/v1/configmaps/{namespace}/secret-course")
        page.wait_for(".problem.forbidden", 'User "stranger" cannot get resource "configmaps"')
