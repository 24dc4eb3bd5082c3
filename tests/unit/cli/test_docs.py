"""``oarlock docs``: reference pages of a user's API, in HTML that no description can break, and in Markdown."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HOSTILE = '<script>alert(1)</script> & "quoted" </title> [x](javascript:alert(1)) | `a` <img src=x onerror=alert(1)>'

SHOP = f"""\
from typing import Annotated, Literal

from oarlock import APIServer, Doc, Ge, ListMap, Model, Pattern, Resource, Rule, Spoke, Unique


class Extra(Model):
    name: str
    grams: Annotated[int, Ge(1)] = 10


class OrderSpec(Model):
    item: Annotated[str, Pattern("^[a-z]+$"), Doc({HOSTILE!r})]
    size: Literal["small", "large"] = "small"
    extras: Annotated[list[Extra], ListMap("name")] = []
    tags: Annotated[list[str], Unique] = []


class Order(
    Resource, group="shop.example.com", version="v2", short_names=["od"], rules=[Rule("self.spec.item != 'rum'")]
):
    '''An order. {HOSTILE}

    - it has
    - two versions
    '''

    spec: OrderSpec


class OldSpec(Model):
    item: str
    count: int = 1
    size: str = "small"


class OldOrder(Spoke[Order], version="v1", deprecated="use v2"):
    spec: OldSpec

    def to_hub(self):
        return Order(spec=OrderSpec(item=self.spec.item))

    @classmethod
    def from_hub(cls, hub):
        return cls(spec=OldSpec(item=hub.spec.item))


server = APIServer(serve=[Order, OldOrder])
"""

EXAMPLE = """\
# A large tea.
apiVersion: shop.example.com/v2
kind: Order
metadata: {name: tea}
spec: {item: tea, size: large}
---
kind: ConfigMap
apiVersion: v1
"""


class Page(html.parser.HTMLParser):
    """The elements of a page, its text and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("href", "src"):
                self.targets.append(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def site(oarlock, folder: Path) -> Path:
    """The site of the shop."""
    (folder / "shop.py").write_text(SHOP)
    (folder / "examples").mkdir()
    (folder / "examples" / "tea.yaml").write_text(EXAMPLE)
    done = oarlock("docs", "shop.py", "-o", "build", "--examples", "examples", "--title", "The <shop>")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "build"


def test_a_page_shows_fields_constraints_defaults_examples_changes_and_operations(site: Path):
    page = Page((site / "order.shop.example.com.html").read_text())
    for text in (
        "spec.extras[].grams",
        "at least 1",
        "matches ^[a-z]+$",
        'one of "small", "large"',
        'Default: "small"',
        "items are told apart by name",
        "self.spec.item != 'rum'",
        "# A large tea.",
        "From v1 to v2",
        "spec.count is gone",
        "spec.extras is new: list of object",
        'spec.size has a constraint: one of "small", "large"',
        "kubectl get orders.v2.shop.example.com NAME --namespace NAMESPACE",
        '"$SERVER/apis/shop.example.com/v1/namespaces/NAMESPACE/orders"',
        'await client.get("shop.example.com/v2/Order", "NAME", namespace="NAMESPACE")',
    ):
        assert text in page.text, text


def test_descriptions_stay_texts(site: Path):
    for file in site.glob("*.html"):
        text = file.read_text()
        page = Page(text)
        assert page.tags.count("script") == 2
        assert "img" not in page.tags
        assert "Content-Security-Policy" in text
        assert all(re.fullmatch(r"[\w.-]+(#[\w.-]+)?|#[\w.-]+", target) for target in page.targets)
    assert HOSTILE.split(" |")[0] in Page((site / "order.shop.example.com.html").read_text()).text
    assert "<script" not in (site / "pages.js").read_text()
    for file in site.glob("markdown/*.md"):
        shown = re.sub(r"(?m)^    .*$", "", file.read_text())
        assert "<script" not in shown
        assert "<img" not in shown
        assert "](javascript" not in shown.replace("\\]", "")


def test_search_finds_what_the_pages_have(site: Path):
    entries = json.loads((site / "pages.js").read_text().removeprefix("window.pages = ").rstrip(";\n"))
    assert {"Order", "Order v2 spec.extras[].name", "Order v1 spec.count"} <= {name for name, _, _ in entries}
    for _, target, _ in entries:
        file, _, anchor = target.partition("#")
        assert not anchor or anchor in Page((site / file).read_text()).ids


def test_links_lead_somewhere(site: Path):
    for file in site.glob("*.html"):
        for target in Page(file.read_text()).targets:
            assert not target.partition("#")[0] or (site / target.partition("#")[0]).is_file()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium")
def test_search_works_from_files_alone(site: Path, tmp_path_factory: pytest.TempPathFactory):
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]
    url = f"file://{site / 'index.html'}?q=extras+grams"
    done = subprocess.run(["chromium", *options, "--dump-dom", url], capture_output=True, text=True, timeout=120)
    assert "#v2-spec-extras---grams" in done.stdout


@pytest.mark.parametrize(
    ("example", "why"),
    [
        ("spec: {item: TEA}", "spec.item"),
        ("spec: {item: tea, colour: red}", "unknown field"),
        ("spec: {item: rum}", "failed rule"),
        ("spec: {item: [}", "yaml"),
    ],
)
def test_examples_are_checked_against_the_schema(oarlock, folder: Path, example: str, why: str):
    (folder / "shop.py").write_text(SHOP)
    (folder / "examples").mkdir()
    head = "apiVersion: shop.example.com/v2\nkind: Order\nmetadata: {name: a}\n"
    (folder / "examples" / "bad.yaml").write_text(f"{head}{example}\n")
    done = oarlock("docs", "shop.py", "--examples", "examples")
    assert done.returncode == 1
    assert "bad.yaml" in done.stderr
    assert why in done.stderr


def test_an_example_is_made_where_none_is_written(oarlock, folder: Path):
    assert oarlock("docs", "things.py").returncode == 0
    page = Page((folder / "build" / "thing.test.example.com.html").read_text())
    assert "name: my-thing" in page.text
