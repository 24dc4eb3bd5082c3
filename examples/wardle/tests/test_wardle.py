"""What clients see of flunders and fischers."""

import pytest
from examples.wardle.api.v1alpha1 import Flunder as OldFlunder
from examples.wardle.api.v1beta1 import Flunder
from examples.wardle.server import server

from oarlock.testing import TestClient, assert_round_trips

pytestmark = pytest.mark.oarlock_app(server)

GROUP = "/apis/wardle.example.com"
FLUNDERS = "namespaces/default/flunders"
BOTH = {"flunderReference": "a", "fischerReference": "b"}


def test_a_reference_of_the_old_version_is_one_of_two_in_the_new(client: TestClient) -> None:
    made = client.post(f"{GROUP}/v1alpha1/{FLUNDERS}", {"metadata": {"name": "one"}, "spec": {"reference": "other"}})
    assert (made.status, made.json["spec"]) == (201, {"reference": "other", "referenceType": "Flunder"})
    new = client.get(f"{GROUP}/v1beta1/{FLUNDERS}/one")
    assert new.json["spec"] == {"flunderReference": "other", "referenceType": "Flunder"}


def test_no_version_loses_anything() -> None:
    assert_round_trips(Flunder, OldFlunder)


def test_a_flunder_has_one_reference_only(client: TestClient) -> None:
    refused = client.post(f"{GROUP}/v1beta1/{FLUNDERS}", {"metadata": {"name": "one"}, "spec": BOTH})
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.fischerReference"]


def test_a_fischer_bans_names(client: TestClient) -> None:
    fischer = {"metadata": {"name": "fischer"}, "disallowedFlunders": ["badname"]}
    assert client.post(f"{GROUP}/v1alpha1/fischers", fischer).status == 201
    refused = client.post(f"{GROUP}/v1beta1/{FLUNDERS}", {"metadata": {"name": "badname"}})
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert client.post(f"{GROUP}/v1beta1/{FLUNDERS}", {"metadata": {"name": "goodname"}}).status == 201
