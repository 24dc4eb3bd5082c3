"""What clients see of foos/exec."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

FOOS = "/apis/hello.zeng.dev/v2/namespaces/default/foos"


def test_it_is_for_clients_that_connect(client: TestClient, sample: Callable[[str], dict[str, Any]]) -> None:
    assert client.post(FOOS, sample("foo")).status == 201
    refused = client.get(f"{FOOS}/example/exec")
    assert (refused.status, refused.json["reason"]) == (400, "BadRequest")
