"""What the control plane is told of the server behind it."""

from oarlock.testing import TestClient

from two_servers.start import BEHIND, NAMESPACE, SERVE, SERVICE, api_service


def test_the_api_service_names_what_is_served(client: TestClient) -> None:
    spec = api_service()["spec"]
    found = client.get(f"/apis/{spec['group']}/{spec['version']}")
    assert [resource["name"] for resource in found.json["resources"]] == ["orders"]


def test_the_server_listens_where_the_api_service_says(client: TestClient) -> None:
    assert api_service()["metadata"]["annotations"] == {"oarlock.dev/url": f"https://127.0.0.1:{BEHIND}"}
    assert f"--secure-port={BEHIND}" in SERVE
    assert f"--tls-san={SERVICE}.{NAMESPACE}.svc" in SERVE
