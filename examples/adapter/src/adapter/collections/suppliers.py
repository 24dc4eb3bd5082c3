"""Between the REST service and Kubernetes' clients. What the service can't do isn't served: delete and watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from oarlock import Context, ListOptions, ObjectMeta, Page, VirtualCollection, errors

from ..api.v1.supplier import Supplier, SupplierSpec

TIMEOUT_S = 10.0
MOST = 100
"""The service gives no more at once."""


class Suppliers(VirtualCollection[Supplier]):
    """The suppliers of a service, whose `url` is asked for when it is needed. It keeps no labels, so they are lost."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url

    async def get(self, name: str, ctx: Context) -> Supplier | None:
        found = await self._ask("GET", f"/{quote(name)}")
        return None if found is None else to_supplier(found)

    async def list(self, ctx: Context, options: ListOptions) -> Page[Supplier]:
        limit = min(options.limit or MOST, MOST)
        found = await self._ask("GET", "?" + urlencode({"after": options.continue_token, "limit": limit}))
        items = [to_supplier(document) for document in (found or {"items": []})["items"]]
        return Page(items, continue_token=items[-1].metadata.name if len(items) == limit else "")

    async def create(self, new: Supplier, ctx: Context) -> Supplier:
        return await self._put(new, {"If-None-Match": "*"}, errors.AlreadyExists)

    async def update(self, new: Supplier, expected_version: str, ctx: Context) -> Supplier:
        return await self._put(new, {"If-Match": expected_version or new.metadata.resource_version}, errors.Conflict)

    async def _put(self, new: Supplier, headers: dict[str, str], refused: type[Exception]) -> Supplier:
        document = {"city": new.spec.city, "preferred": new.spec.preferred}
        made = await self._ask("PUT", f"/{quote(new.metadata.name)}", document, headers)
        if made is None:
            raise refused
        return to_supplier(made)

    async def _ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """The service's answer; None if there is nothing, or if it is in another revision."""
        sent = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url()}/suppliers{path}", sent, headers or {}, method=method)
        return await asyncio.to_thread(_answer, request)


def _answer(request: Request) -> Any:
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except HTTPError as error:
        with error:
            if error.code in (404, 412):
                return None
            raise


def to_supplier(document: dict[str, Any]) -> Supplier:
    return Supplier(
        metadata=ObjectMeta(name=document["id"], resource_version=str(document["revision"])),
        spec=SupplierSpec(city=document["city"], preferred=document["preferred"]),
    )
