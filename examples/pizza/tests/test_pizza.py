"""What pizzas promise: the versions, the default, and which toppings there may be."""

import pytest
from oarlock import APIServer
from oarlock.testing import TestClient

from pizza.server import make_server

GROUP = "/apis/restaurant.example.com"
PIZZAS = f"{GROUP}/v1beta1/namespaces/default/pizzas"
OLD = f"{GROUP}/v1alpha1/namespaces/default/pizzas"
TOPPINGS = f"{GROUP}/v1beta1/toppings"


@pytest.fixture
def oarlock_app() -> APIServer:
    return make_server(refused=["pineapple"])


@pytest.fixture(autouse=True)
def toppings(client: TestClient) -> None:
    for name in ("salami", "mozzarella", "tomato", "pineapple"):
        assert client.post(TOPPINGS, {"metadata": {"name": name}, "spec": {"cost": 1.5}}).status == 201


def pizza(*names: str) -> dict[str, object]:
    return {"metadata": {"name": "mine"}, "spec": {"toppings": list(names)}}


def test_a_topping_that_was_written_twice_is_counted(client: TestClient) -> None:
    assert client.post(OLD, pizza("tomato", "mozzarella", "tomato")).status == 201
    counted = client.get(f"{PIZZAS}/mine").json["spec"]["toppings"]
    assert counted == [{"name": "tomato", "quantity": 2}, {"name": "mozzarella", "quantity": 1}]
    assert client.get(f"{OLD}/mine").json["spec"]["toppings"] == ["tomato", "tomato", "mozzarella"]


def test_who_says_nothing_gets_salami(client: TestClient) -> None:
    made = client.post(PIZZAS, {"metadata": {"name": "mine"}, "spec": {}})
    assert [topping["name"] for topping in made.json["spec"]["toppings"]] == ["salami", "mozzarella", "tomato"]


@pytest.mark.parametrize(
    ("name", "says"), [("cheese", "unknown topping: cheese"), ("pineapple", "pineapple is never put on a pizza here")]
)
def test_what_there_is_not_is_refused(client: TestClient, name: str, says: str) -> None:
    refused = client.post(OLD, pizza("tomato", name))
    assert refused.status == 403
    assert says in refused.json["message"]
