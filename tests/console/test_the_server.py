"""What the console says of the server itself, and of who may do what."""

from __future__ import annotations

from browser import Browser, Page
from console_kit import Plane, unreadable


def test_whoever_looks_is_told_who_they_are_and_what_they_may(page: Page, plane: Plane) -> None:
    plane.open(page, "#/me?ns=default")
    page.wait_for("h1", "admin")
    page.wait_for(".facts", "system:masters")
    page.wait_for("table.plain td", "* of *")
    assert unreadable(page) == []


def test_who_else_may_is_told_to_those_who_may_know(browser: Browser, page: Page, plane: Plane) -> None:
    plane.open(page, "#/me?ns=default")
    page.choose("[aria-label='Verb']", "delete")
    page.fill("[aria-label='User']", "stranger")
    page.click(".panel button", "May they?")
    page.wait_for("p.answer", "stranger may not delete bindings")
    page.click(".panel button", "Who may, by roles")
    page.wait_for(".holders td", "Group system:masters")
    with browser.page(plane.console) as other:
        plane.log_in(other, "stranger")
        plane.open(other, "#/me")
        other.click(".panel button", "May I?")
        other.wait_for("p.answer", "You may not get bindings")
        other.click(".panel button", "Who may, by roles")
        other.wait_for(".problem.forbidden", "cannot list resource")


def test_health_and_metrics_are_shown(page: Page, plane: Plane) -> None:
    plane.open(page, "#/health")
    page.wait_for(".checks .good", "etcd ok")
    page.wait_for("h2 .state.good", "yes")
    page.wait_for(".levels td", "system")
    page.wait_for(".plots figcaption", "MiB")
    page.until("document.querySelectorAll('.plots canvas').length === 4")
    page.until("Number(document.querySelector('.plots').dataset.points) >= 3")
    assert unreadable(page) == []


def test_metrics_that_may_not_be_read_are_said_to_be(browser: Browser, plane: Plane) -> None:
    with browser.page(plane.console) as page:
        plane.log_in(page, "stranger")
        plane.open(page, "#/health")
        page.wait_for(".problem.forbidden", "/metrics")
        page.wait_for(".checks .good", "ping ok")


def test_why_an_api_service_is_down_is_said(page: Page, plane: Plane) -> None:
    spec = {"group": "gone.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    service = {"service": {"namespace": "default", "name": "nowhere", "port": 443}, "insecureSkipTLSVerify": True}
    name = "v1.gone.example.com"
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    plane.create(path, {"metadata": {"name": name}, "spec": {**spec, **service}})
    try:
        plane.until(lambda: bool(plane.client().get(f"{path}/{name}").json.get("status", {}).get("conditions")))
        plane.open(page, "#/health")
        page.wait_for(".apiservices li", name)
        page.wait_for(".apiservices .state.bad", "down")
        page.wait_for(".apiservices li p", "ServiceNotFound")
        page.wait_for(".apiservices li .advice", "create the Service, or correct spec.service")
    finally:
        plane.client().delete(f"{path}/{name}")
