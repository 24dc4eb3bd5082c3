"""What the server does with foos beyond storing them."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

from oarlock import Channels, Context, StoredCollection, errors, subresource

from ..api.transformation import Base64
from ..api.v2.foo import Foo, FooStatus

Command = list[str]


class Foos(StoredCollection[Foo]):
    """Foos start out as Processing, can be had as base64, can be listened to, and can be talked with."""

    def prepare(self, new: Foo, old: Foo | None, ctx: Context) -> None:
        if old is None:
            new.status = FooStatus(phase="Processing")

    @subresource("base64")
    async def _base64(self, parent: dict[str, Any], body: Base64, ctx: Context) -> Base64:
        """The object as the client sees it, or one field of it, as base64 of its JSON."""
        if body.metadata.name not in ("", ctx.target.name):
            raise errors.BadRequest(f"name in URL does not match name in Base64 object: {body.metadata.name}")
        found: Any = parent
        for step in filter(None, body.spec.field_path.lstrip(".").split(".")):
            if not isinstance(found, dict) or step not in found:
                raise errors.BadRequest(f"undefined field path {body.spec.field_path}")
            found = found[step]
        text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
        body.status.output = base64.b64encode(text.encode()).decode()
        return body

    @subresource("log")
    async def _log(self, parent: Foo, *, follow: bool = False) -> AsyncIterator[bytes]:
        """What the foo says: its message, and again every second for those who follow."""
        line = f"{parent.metadata.name}: {parent.spec.config.msg}\n".encode()
        yield line
        while follow:
            await asyncio.sleep(1)
            yield line

    @subresource("exec", connect=True)
    async def _exec(self, parent: Foo, channels: Channels, *, command: Command = []) -> int:  # noqa: B006
        """A shell with four commands, none of which leaves the server."""
        match command:
            case ["say"]:
                await channels.stdout.write(f"{parent.spec.config.msg}\n".encode())
            case ["cat"]:
                async for data in channels.stdin:
                    await channels.stdout.write(data)
            case ["size"]:
                size = await channels.resized()
                await channels.stdout.write(f"{size.width}x{size.height}\n".encode())
            case ["exit", code] if code.isdecimal():
                return int(code)
            case _:
                await channels.stderr.write(f"{' '.join(command)}: say, cat, size or exit N\n".encode())
                return 127
        return 0
