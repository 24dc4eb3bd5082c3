"""What holds of the server as a whole."""

from oarlock.testing import TestClient


def test_the_server_is_ready(client: TestClient) -> None:
    assert client.get("/readyz").status == 200
