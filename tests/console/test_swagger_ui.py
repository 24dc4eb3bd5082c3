"""Swagger UI in a browser: it shows the server's documents, and a request is made from the page."""

from __future__ import annotations

from browser import Browser, Page
from console_kit import EVIL, Plane

VERSION = "apis/coordination.k8s.io/v1"


def show(page: Page, plane: Plane, document: str) -> None:
    """Log in, and choose a document."""
    page.wait_for("#message", "enter a token")
    page.fill("#token", plane.tokens["admin"])
    page.click("#bar button")
    found = f"[...document.querySelectorAll('#documents option')].find((one) => one.textContent === '{document}')"
    page.choose("#documents", page.until(f"{found}?.value"))


def test_a_request_is_made_from_the_page(browser: Browser, plane: Plane):
    namespace = plane.namespace()
    plane.create(f"/{VERSION}/namespaces/{namespace}/leases", {"metadata": {"name": "from-swagger"}})
    with browser.page(f"{plane.running.url}/openapi/ui/") as page:
        show(page, plane, VERSION)
        path = f"/{VERSION}/namespaces/{{namespace}}/leases"
        operation = f".opblock-get:has([data-path='{path}'])"
        page.click(f"{operation} .opblock-summary-control")
        page.fill(f"{operation} tr[data-param-name=namespace] input", namespace)
        page.click(f"{operation} .execute")
        page.wait_for(f"{operation} .live-responses-table .response-col_status", "200")
        assert "from-swagger" in page.text(f"{operation} .live-responses-table")
        assert [problem for problem in page.problems if "401" not in problem and "403" not in problem] == []


def test_what_descriptions_say_is_not_run(browser: Browser, plane: Plane):
    schema = {"type": "object", "description": EVIL, "properties": {"a": {"type": "string", "description": EVIL}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"plural": "evils", "kind": "Evil"}
    plane.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "evils.swagger.example.com"},
            "spec": {"group": "swagger.example.com", "scope": "Cluster", "names": names, "versions": versions},
        },
    )
    document = "/openapi/v3/apis/swagger.example.com/v1"
    plane.until(lambda: plane.client().get(document).status == 200)
    with browser.page(f"{plane.running.url}/openapi/ui/") as page:
        show(page, plane, "apis/swagger.example.com/v1")
        page.wait_for(".opblock-post")
        page.click(".opblock-post .opblock-summary-control")
        page.wait_for(".opblock-post .execute")
        assert page.run("document.title") == "API"
