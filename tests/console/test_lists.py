"""What there is, as the server's own tables: live, filtered, sorted, long, on every screen and by the keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, Page
from console_kit import EVIL, Plane, unreadable

from oarlock import APIServer, Column, Context, Model, Resource, VirtualCollection
from oarlock.server.config import ServerConfig
from oarlock.testing.thread import ServerThread

MANY = 10_000


class BuoySpec(Model):
    number: int = 0


class Buoy(
    Resource,
    group="sea.example.com",
    version="v1",
    plural="buoys",
    scope="Cluster",
    columns=[Column("Number", ".spec.number")],
):
    """One of very many."""

    spec: BuoySpec = BuoySpec()


class Buoys(VirtualCollection[Buoy]):
    async def list(self, ctx: Context) -> list[Buoy]:
        made = [Buoy(spec=BuoySpec(number=number)) for number in range(MANY)]
        for number, buoy in enumerate(made):
            buoy.metadata.name = f"buoy-{number:05}"
        return made


@pytest.fixture
def many(browser: Browser) -> Iterator[Page]:
    """A server of one kind and no namespaces, with its 10,000 objects."""
    config = ServerConfig(storage="memory://", console=True)
    with (
        ServerThread(APIServer(serve=[Buoys], name="sea"), config=config) as running,
        browser.page(f"{running.url}/console/") as page,
    ):
        page.fill("#token", running.token)
        page.click("button[type=submit]")
        page.wait_for(".bar .home", "sea")
        page.run("location.hash = '#/list/sea.example.com/v1/buoys'")
        page.wait_for(".live .count", "10,000")
        yield page
        assert page.problems == []


def test_of_many_rows_only_those_in_sight_are_in_the_page(many: Page) -> None:
    page = many
    page.wait_for(".row a", "buoy-00000")
    page.run("document.querySelector('.grid').focus()")
    page.press("End")
    page.wait_for(".row.current a", "buoy-09999")
    assert page.run("document.querySelectorAll('.row').length") < 100
    page.fill(".filters .text", "buoy-0777")
    page.wait_for(".live .count", "10 of 10,000")
    page.wait_for(".row a", "buoy-07770")
    page.press("Escape")
    page.click(".row.head button", "Number")
    page.click(".row.head [aria-sort=ascending] button", "Number")
    page.until("document.querySelector('.rows .row a')?.innerText === 'buoy-07779'")


def test_kinds_and_namespaces_are_what_the_server_says(page: Page, plane: Plane) -> None:
    page.wait_for(".kinds a", "Deployment")
    page.wait_for(".kinds summary", "apps")
    namespace = plane.namespace()
    plane.config_map(namespace, "here")
    page.run("location.reload()")
    plane.log_in(page)
    page.choose(".namespace select", namespace)
    page.click(".kinds a", "ConfigMap")
    page.wait_for(".row a", "here")
    assert page.texts(".row.head [role=columnheader]")[1:] == ["Name", "Data", "Age"]
    page.choose(".namespace select", "")
    page.wait_for(".row.head [role=columnheader]", "Namespace")
    page.wait_for(".row [role=gridcell]", namespace)


def test_a_list_is_live(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.open(page, f"#/list/_/v1/configmaps?ns={namespace}")
    page.wait_for(".live.live")
    plane.config_map(namespace, "boat")
    page.wait_for(".row a", "boat")
    client = plane.client()
    for number in range(50):
        data = {f"key-{one}": "x" for one in range(number + 1)}
        assert client.patch(f"{path}/boat", {"data": data}).status == 200
    page.wait_for(".row [role=gridcell]", "50")
    page.until("Number(document.querySelector('.live').dataset.changes) >= 51")
    assert client.delete(f"{path}/boat").status == 200
    page.until("![...document.querySelectorAll('.row a')].some((one) => one.innerText === 'boat')")


def test_lists_are_filtered_by_text_label_and_field(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    for name, tier in (("red-boat", "web"), ("blue-boat", "web"), ("red-ship", "db")):
        plane.config_map(namespace, name, labels={"tier": tier})
    plane.open(page, f"#/list/_/v1/configmaps?ns={namespace}&q=boat")
    names = "[...document.querySelectorAll('.rows .row a')].map((one) => one.innerText).join()"
    page.until(f"{names} === 'blue-boat,red-boat'")
    page.fill(".filters .text", "red")
    page.until(f"{names} === 'red-boat,red-ship'")
    page.fill("[aria-label='Label selector']", "tier=db")
    page.until(f"{names} === 'red-ship'")
    page.fill("[aria-label='Label selector']", "")
    page.fill("[aria-label='Field selector']", "metadata.name=red-boat")
    page.until(f"{names} === 'red-boat'")
    page.fill("[aria-label='Field selector']", "data=1")
    page.wait_for("[role=alert]", "known field selector")


def test_names_and_labels_are_text_whatever_is_in_them(page: Page, plane: Plane) -> None:
    group = "evil.example.com"
    schema = {"type": "object", "description": EVIL, "properties": {"spec": {"type": "string", "description": EVIL}}}
    columns = [{"name": EVIL, "type": "string", "jsonPath": ".spec", "description": EVIL}]
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plane.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": f"traps.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {"plural": "traps", "kind": "Trap"},
                "versions": [{**version, "additionalPrinterColumns": columns}],
            },
        },
    )
    path = f"/apis/{group}/v1/traps"
    body = {"apiVersion": f"{group}/v1", "kind": "Trap", "metadata": {"name": "a", "annotations": {"a": EVIL}}}
    plane.until(lambda: plane.client().get(path).status == 200)
    plane.create(path, {**body, "spec": EVIL})
    page.run("location.reload()")
    plane.log_in(page)
    plane.open(page, f"#/list/{group}/v1/traps?q={'%3Cb%3E'}")
    page.wait_for(".live.live")
    page.fill(".filters .text", "<img")
    page.wait_for(".row [role=gridcell]", EVIL)
    page.wait_for(".row.head [role=columnheader]", EVIL)
    assert page.run("document.querySelectorAll('#app img, #app script').length") == 0
    assert page.run("document.title") != "pwned"


def pages_about(plane: Plane) -> dict[str, str]:
    """Every page of the console, by its place, and what is there when it is whole."""
    namespace = plane.namespace()
    plane.config_map(namespace, "looked-at", {"course": "north"})
    about = f"#/object/_/v1/configmaps/{namespace}/looked-at"
    return {
        "#/": ".homepage .tile strong",
        f"#/list/_/v1/configmaps?ns={namespace}": ".rows .row a",
        about: ".yaml-view[data-schemas=loaded]",
        f"{about}?tab=edit": ".outcome",
        f"{about}?tab=state": ".panel",
        f"{about}?tab=relations": ".tree .node",
        f"{about}?tab=revisions": ".pickers, .empty, .hint",
        f"#/create/_/v1/configmaps?ns={namespace}": ".outcome",
        "#/me?ns=default": "table.plain td",
        "#/health": ".levels td",
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(page: Page, plane: Plane, dark: bool) -> None:
    """The contrast is at least 4.5 to 1, as WCAG 2.2 AA asks for."""
    page.show(1280, 800, dark=dark)
    assert page.run("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    for place, whole in pages_about(plane).items():
        plane.open(page, place)
        page.wait_for(whole)
        assert unreadable(page) == [], place


def test_a_phone_is_wide_enough(page: Page, plane: Plane) -> None:
    page.show(360, 740)
    for place, whole in pages_about(plane).items():
        plane.open(page, place)
        page.wait_for(whole)
        assert page.run("document.documentElement.scrollWidth") <= 360, place
    page.click(".bar .menu")
    page.click(".kinds a", "Namespace")
    page.wait_for(".row a", "kube-system")


def test_the_keyboard_is_enough(page: Page, plane: Plane) -> None:
    namespace = plane.namespace()
    for name in ("a", "b", "c"):
        plane.config_map(namespace, f"key-{name}")
    plane.open(page, f"#/?ns={namespace}")
    page.press(":")
    page.wait_for("dialog input")
    page.type("cm")
    page.wait_for(".palette [aria-selected=true]", "ConfigMap")
    page.press("Enter")
    page.wait_for(".row a", "key-c")
    page.gone("dialog")
    page.press("/")
    page.until("document.activeElement.matches('.filters .text')")
    page.type("key-")
    page.press("Escape")
    page.run("document.querySelector('.grid').focus()")
    page.press("j", "j")
    page.wait_for(".row.current a", "key-b")
    page.press(" ")
    page.wait_for(".row.selected a", "key-b")
    page.press("k", "Enter")
    page.until(f"location.hash.startsWith('#/object/_/v1/configmaps/{namespace}/key-a')")
