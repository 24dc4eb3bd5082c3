"""What is filled in and refused of the kind Website."""

from collections.abc import Callable
from typing import Any

from oarlock.testing import TestClient

WEBSITES = "/apis/web.example.com/v1/namespaces/default/websites"


def test_who_made_an_object_is_written_down_for_good(
    client: TestClient, sample: Callable[[str], dict[str, Any]]
) -> None:
    made = client.post(WEBSITES, sample("website"))
    assert made.status == 201, made.json
    assert made.json["metadata"]["annotations"]["web.example.com/creator"]
    changed = {"metadata": {"annotations": {"web.example.com/creator": "somebody-else"}}}
    refused = client.patch(f"{WEBSITES}/example", changed)
    assert refused.status == 403
    assert "stays as it is" in refused.json["message"]
