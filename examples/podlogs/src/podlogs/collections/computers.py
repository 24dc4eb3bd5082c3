"""What the server does with objects of the kind Computer beyond storing them: their logs, and commands in them."""

from collections.abc import AsyncIterator, Iterator

from oarlock import Channels, Context, FieldError, Invalid, StoredCollection, subresource

from ..api.v1.computer import Computer
from ..shells import Shell, Shells

Command = list[str]


class Computers(StoredCollection[Computer]):
    """Computers in `shells`, which are part of this server."""

    def __init__(self, shells: Shells) -> None:
        self._shells = shells

    def validate(self, new: Computer, old: Computer | None, ctx: Context) -> Iterator[FieldError]:
        """Refuse what can't be, and say every reason at once."""
        if new.metadata.name.startswith("kube-"):
            yield Invalid("metadata.name", new.metadata.name, "names that begin with kube- are Kubernetes' own")

    def _shell(self, parent: Computer) -> Shell:
        return self._shells.of(parent.metadata.uid, parent.spec.greeting)

    @subresource("log")
    async def _log(
        self, parent: Computer, *, follow: bool = False, tail_lines: int | None = None
    ) -> AsyncIterator[bytes]:
        """A line for each command that was run: ?tailLines=3 for the last, ?follow=true for those to come."""
        async for line in self._shell(parent).log(follow=follow, tail=tail_lines):
            yield line

    @subresource("exec", connect=True)
    async def _exec(self, parent: Computer, channels: Channels, *, command: Command = []) -> int:  # noqa: B006
        """Runs a command, which talks with the client, and returns its exit code."""
        return await self._shell(parent).run(command, channels)
