"""One control plane with a console, and one browser, for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, Page
from console_kit import Plane, plane_with_console


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"))
            item.add_marker(pytest.mark.xdist_group("console"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane_with_console(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture
def page(browser: Browser, plane: Plane) -> Iterator[Page]:
    """The console, for the administrator, with nothing opened. A script that fails, fails the test."""
    with browser.page(plane.console) as page:
        plane.log_in(page)
        yield page
        assert page.problems == []
