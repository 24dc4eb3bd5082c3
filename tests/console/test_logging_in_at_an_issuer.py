"""Whoever an issuer vouches for gets in: authorization code with PKCE, and no token but in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, Page
from login_page import CLIENT, LoginPage, login_page

from oarlock import APIServer, Model, Resource, StoredCollection
from oarlock.server.config import ServerConfig
from oarlock.testing.thread import ServerThread


class SailSpec(Model):
    area: int = 1


class Sail(Resource, group="sea.example.com", version="v1"):
    """One of a boat's."""

    spec: SailSpec = SailSpec()


class Sails(StoredCollection[Sail]):
    pass


@pytest.fixture(scope="module")
def issuer_and_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoginPage, ServerThread]]:
    folder = tmp_path_factory.mktemp("issuer")
    with login_page(folder) as (issuer, ca):
        options = {"oidc_issuer_url": issuer.url, "oidc_client_id": CLIENT, "oidc_ca_file": ca}
        config = ServerConfig(storage="memory://", console=True, **options)
        with ServerThread(APIServer(serve=[Sails]), config=config) as running:
            yield issuer, running


@pytest.fixture
def page(browser: Browser, issuer_and_server: tuple[LoginPage, ServerThread]) -> Iterator[Page]:
    with browser.page(f"{issuer_and_server[1].url}/console/#/list/sea.example.com/v1/sails") as page:
        yield page
        assert page.problems == []


def test_an_issuer_vouches_for_whoever_it_knows(page: Page, issuer_and_server: tuple[LoginPage, ServerThread]) -> None:
    issuer, _ = issuer_and_server
    page.click("button", "Log in with 127.0.0.1")
    page.wait_for(".empty", "There are no sails")
    assert page.run("location.search") == ""
    assert page.run("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
    assert issuer.codes == {}
    assert issuer.refused == []


def test_an_answer_that_nobody_asked_for_lets_nobody_in(
    page: Page, issuer_and_server: tuple[LoginPage, ServerThread]
) -> None:
    _, running = issuer_and_server
    page.wait_for("#token")
    page.open(f"{running.url}/console/?code=stolen&state=guessed")
    page.wait_for("[role=alert]", "this isn't the login that was begun here")
    page.open(f"{running.url}/console/?error=access_denied&error_description=%3Cimg%20src%3Dx%3E")
    page.wait_for("[role=alert]", "the issuer refused the login: <img src=x>")
