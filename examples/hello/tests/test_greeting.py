"""What clients see of the kind Greeting, which nobody stores."""

from oarlock.testing import TestClient

GREETINGS = "/apis/hello.zeng.dev/v2/greetings"


def test_there_is_a_greeting_for_each_language(client: TestClient) -> None:
    listed = client.get(GREETINGS).json["items"]
    assert [item["metadata"]["name"] for item in listed] == ["english", "french", "german"]
    assert client.get(f"{GREETINGS}/german").json["status"] == {"text": "hallo Welt 👋"}
    assert client.get(f"{GREETINGS}/klingon").status == 404


def test_greetings_are_only_read(client: TestClient) -> None:
    assert client.post(GREETINGS, {"metadata": {"name": "danish"}}).status == 405
    assert client.delete(f"{GREETINGS}/german").status == 405
