"""Fields of a Model that are texts on the wire: decimals, dates, times, durations, UUIDs."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from oarlock import APIServer, Context, Foreign, Resource, StoredCollection, pydantic_shape, served_from
from oarlock.cli.declaring_commands import exported
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

PATH = "/apis/bank.example.com/v1/namespaces/default/loans"
HEAD = {"apiVersion": "bank.example.com/v1", "kind": "Loan", "metadata": {"name": "a"}}


class Loan(Resource, group="bank.example.com", version="v1"):
    """Money that is to come back."""

    amount: Decimal
    rates: list[Decimal] = []
    fees: dict[str, Decimal] = {}
    due: date | None = None
    opens: time = time(9, 30)
    grace: timedelta = timedelta(days=1)
    contract: UUID | None = None
    doubled: Decimal | None = None


class Loans(StoredCollection[Loan]):
    def prepare(self, new: Loan, old: Loan | None, ctx: Context) -> None:
        assert isinstance(new.grace, timedelta)
        assert isinstance(new.opens, time)
        new.doubled = new.amount * 2


async def test_values_are_python_s_in_hooks_and_texts_on_the_wire():
    async with InMemory(APIServer(serve=[Loans])) as api:
        sent = {"amount": "1.10", "due": "2026-02-28", "grace": "PT1H", "contract": str(UUID(int=1))}
        made = await api.post(PATH, {**HEAD, **sent})
        assert made.status == 201, made.body
        kept = {key: made.json[key] for key in (*sent, "opens", "doubled")}
        assert kept == {**sent, "opens": "09:30:00", "doubled": "2.20"}
        loan = await api.client().get(Loan, "a", namespace="default")
        assert (loan.amount, loan.due, loan.contract) == (Decimal("1.10"), date(2026, 2, 28), UUID(int=1))


async def test_numbers_are_taken_for_decimals_and_kept_as_texts():
    async with InMemory(APIServer(serve=[Loans])) as api:
        made = await api.post(PATH, {**HEAD, "amount": 1.5, "rates": [2, 0.25, "1e3"], "fees": {"a": 7}})
        assert made.status == 201, made.body
        assert [made.json[key] for key in ("amount", "rates", "fees")] == ["1.5", ["2", "0.25", "1e3"], {"a": "7"}]
        patched = await api.patch(f"{PATH}/a", {"amount": 4})
        assert (patched.json["amount"], patched.json["doubled"]) == ("4", "8")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", "a lot"),
        ("amount", True),
        ("due", "tomorrow"),
        ("opens", "9"),
        ("grace", "1h"),
        ("contract", "0"),
    ],
)
async def test_what_is_none_of_them_is_refused(field: str, value: Any):
    async with InMemory(APIServer(serve=[Loans])) as api:
        refused = await api.post(PATH, {**HEAD, "amount": "1", field: value})
        assert refused.status in (400, 422)
        assert field in refused.json["message"]


def test_a_cluster_is_told_texts_with_patterns():
    (served,) = served_from([Loans])
    properties = exported(served.definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert properties["due"] == {"type": "string", "format": "date"}
    assert properties["opens"]["default"] == "09:30:00"
    assert {*properties["amount"]} == {"type", "pattern"}


class Price(pydantic.BaseModel):
    """What it costs."""

    price: Decimal


async def test_a_pydantic_model_takes_numbers_for_decimals_as_pydantic_does():
    served = Foreign(pydantic_shape(Price), group="bank.example.com", version="v1", kind="Price")
    async with InMemory(APIServer(serve=[served])) as api:
        path = "/apis/bank.example.com/v1/namespaces/default/prices"
        head = {"apiVersion": "bank.example.com/v1", "kind": "Price", "metadata": {"name": "a"}}
        made = await api.post(path, {**head, "price": 2.5})
        assert (made.status, made.json.get("price")) == (201, "2.5"), made.body
