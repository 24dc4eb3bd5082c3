"""What clients see of foos/log."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

FOOS = "/apis/hello.zeng.dev/v2/namespaces/default/foos"


def test_it_says_what_is_known(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    assert client.post(FOOS, sample("foo")).status == 201
    said = client.get(f"{FOOS}/example/log")
    assert said.status == 200
    assert said.body == b"example: ahoy\n"
    assert client.get(f"{FOOS}/missing/log").status == 404
