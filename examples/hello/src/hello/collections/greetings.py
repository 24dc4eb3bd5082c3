"""A resource that is kept nowhere: its objects are computed when somebody asks."""

from oarlock import Context, ObjectMeta, VirtualCollection

from ..api.v2.greeting import Greeting, GreetingStatus

HELLO = {"english": "hello world 👋", "french": "bonjour le monde 👋", "german": "hallo Welt 👋"}


def greet(language: str) -> Greeting:
    return Greeting(metadata=ObjectMeta(name=language), status=GreetingStatus(text=HELLO[language]))


class Greetings(VirtualCollection[Greeting]):
    """Read-only: get and list are written, so get and list are served."""

    async def get(self, name: str, ctx: Context) -> Greeting | None:
        return greet(name) if name in HELLO else None

    async def list(self, ctx: Context) -> list[Greeting]:
        return [greet(language) for language in HELLO]
