"""Who looks at the console, and what of their credentials is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import KEEPS_CERTIFICATES, Browser, Page
from console_kit import Plane
from kubectl import Kubectl, NoKubectl, on_the_path

STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"


def test_a_token_is_asked_for_and_a_wrong_one_is_refused(browser: Browser, plane: Plane) -> None:
    with browser.page(plane.console) as page:
        page.fill("#token", "not-a-token")
        page.click("button[type=submit]")
        page.wait_for("[role=alert]", "The server doesn't accept this token.")
        plane.log_in(page)
        page.wait_for(".bar .pages", "admin")


def test_a_token_is_in_memory_only(page: Page, plane: Plane) -> None:
    assert page.run(STORED) == '[{},{},""]'
    page.run("location.reload()")
    page.wait_for("#token")


def test_whoever_logs_out_is_forgotten(page: Page, plane: Plane) -> None:
    page.click(".bar button", "Log out")
    page.wait_for("#token")
    assert page.run("document.querySelector('#token').value") == ""


def test_whoever_may_not_list_is_told_so(browser: Browser, plane: Plane) -> None:
    with browser.page(plane.console) as page:
        plane.log_in(page, "stranger")
        page.wait_for(".homepage .tile", "not allowed")
        page.wait_for(".homepage .hint", "You may not list namespaces")
        plane.open(page, "#/list/_/v1/secrets")
        page.wait_for(".problem.forbidden", 'User "stranger" cannot list resource "secrets"')
        page.wait_for(".live.refused", "not allowed")
        assert page.problems == []


@pytest.mark.skipif(not KEEPS_CERTIFICATES, reason="no certutil and pk12util here, of Debian's libnss3-tools")
def test_whoever_has_a_client_certificate_needs_no_login(plane: Plane) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "for-those-with-a-certificate")
    place = f"#/list/_/v1/configmaps?ns={namespace}"
    with Browser(certificate=plane.certificate("admin")) as browser, browser.page(plane.console + place) as page:
        page.wait_for(".bar .pages", "admin")
        page.wait_for(".row a", "for-those-with-a-certificate")
        assert "Log out" not in page.texts(".bar button")
        plane.config_map(namespace, "comes-later")
        page.wait_for(".row a", "comes-later")
        assert page.problems == []


@pytest.fixture
def proxy(plane: Plane, tmp_path: Path) -> Iterator[str]:
    """``kubectl proxy``, which has credentials of its own, behind a prefix: where the console is."""
    try:
        kubectl = Kubectl(on_the_path(), plane.running.kubeconfig, tmp_path)
    except NoKubectl as none:
        pytest.skip(str(none))
    with kubectl.running("proxy", "--port=0", "--api-prefix=/some/prefix") as running:
        yield f"http://{running.line().split()[-1]}/some/prefix/console/"


def test_who_is_known_without_a_token_needs_no_login_also_behind_a_prefix(
    browser: Browser, plane: Plane, proxy: str
) -> None:
    namespace = plane.namespace()
    plane.config_map(namespace, "behind-a-prefix")
    with browser.page(proxy) as page:
        page.wait_for(".bar .pages", "admin")
        plane.open(page, f"#/list/_/v1/configmaps?ns={namespace}")
        page.wait_for(".row a", "behind-a-prefix")
        plane.config_map(namespace, "comes-later")
        page.wait_for(".row a", "comes-later")
        assert page.problems == []
