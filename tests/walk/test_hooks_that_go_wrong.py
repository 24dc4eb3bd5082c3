"""What a hook does wrong is told to who wrote it, by its name in the log; the client hears that it isn't to blame."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from walk_kit import GROUP, failure, made, path, walk

from oarlock import (
    Admission,
    APIServer,
    Authorizer,
    Context,
    Decision,
    Denied,
    FieldError,
    Foreign,
    Model,
    ObjectMeta,
    Resource,
    Review,
    StoredCollection,
    Target,
    User,
    VirtualCollection,
    pydantic_shape,
    subresource,
)
from oarlock.registry.hooks.hook_caller import QUIET_S
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, InMemory

pydantic = pytest.importorskip("pydantic")

Work = Callable[[Any], None]
work: dict[str, Work] = {}
CLOCK = VirtualClock()


def do(where: str, thing: Any) -> None:
    """What the test wants done there."""
    work.get(where, lambda _: None)(thing)


class NestSpec(Model):
    """What is in it."""

    eggs: int = 1
    colours: list[str] = []


class Nest(Resource, group=GROUP, version="v1"):
    """A nest."""

    spec: NestSpec = NestSpec()

    def default(self) -> None:
        do("default", self)


class Nests(StoredCollection[Nest]):
    def prepare(self, new: Nest, old: Nest | None, ctx: Context) -> None:
        do("prepare", new)

    def validate(self, new: Nest, old: Nest | None, ctx: Context) -> Iterator[FieldError]:
        do("validate", new)
        yield from ()

    @subresource("sit")
    async def _sit(self, parent: Nest, body: Nest) -> Nest:
        do("sit", body)
        return body


class Keeper(Admission[Nest]):
    async def mutate(self, review: Review[Nest]) -> None:
        do("mutate", review.object)

    async def validate(self, review: Review[Nest]) -> None:
        do("admission", review.object)


class Cave(Resource, group=GROUP, version="v1"):
    """A nest somebody else keeps."""

    eggs: int = 1


class Caves(VirtualCollection[Cave]):
    async def get(self, name: str, ctx: Context) -> Cave | None:
        return None if name == "new" else Cave(metadata=ObjectMeta(name=name))

    async def create(self, new: Cave, ctx: Context) -> Cave:
        do("create", new)
        return new


NESTS, CAVES = path("nests", version="v1"), path("caves", version="v1")


@pytest.fixture(autouse=True)
def _nothing_to_do(caplog: Any) -> Iterator[None]:
    caplog.set_level(logging.INFO)
    yield
    work.clear()


def server() -> InMemory:
    return InMemory(APIServer(serve=[Nests, Caves], admission=[Keeper()]), clock=CLOCK)


def nest(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def blamed_on_us(answer: Answer) -> None:
    text = "code of this server's own failed; its log has more"
    assert failure(answer) == (500, "InternalError", f"Internal error occurred: {text}")
    assert answer.json["details"] == {"causes": [{"message": text}]}


def eggs(value: Any) -> Work:
    def set_them(thing: Any) -> None:
        target = thing.spec if isinstance(thing, Nest) else thing
        target.eggs = value

    return set_them


def colour(value: Any) -> Work:
    return lambda thing: thing.spec.colours.append(value)


@pytest.mark.parametrize(
    ("where", "name"),
    [("default", "Nest.default"), ("mutate", "Keeper.mutate"), ("prepare", "Nests.prepare")],
)
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (eggs("many"), 'spec.eggs: Invalid value: "string"'),
        (eggs(None), "spec.eggs"),
        (eggs(object()), "object"),
        (colour(7), "spec.colours[0]"),
    ],
    ids=["a text", "nothing", "no JSON", "in a list"],
)
@walk
async def test_a_wrong_type_is_the_hooks_fault(where: str, name: str, wrong: Work, told: str, caplog: Any) -> None:
    async with server() as api:
        work[where] = wrong
        blamed_on_us(await api.post(NESTS, nest()))
        (record,) = [one for one in caplog.records if one.name == "oarlock.hooks"]
        assert record.levelname == "ERROR"
        assert record.getMessage().startswith(f"{name} made an object that can't be kept: ")
        assert told in record.getMessage()
        work.clear()
        assert (await api.post(NESTS, nest())).status == 201, "and nothing was kept"


@walk
async def test_a_wrong_type_of_a_method_is_its_fault_too(caplog: Any) -> None:
    async with server() as api:
        work["create"] = work["sit"] = eggs("many")
        blamed_on_us(await api.post(CAVES, {"metadata": {"name": "new"}}))
        await made(api, NESTS, nest())
        blamed_on_us(await api.post(f"{NESTS}/a/sit", {}))
    assert "Caves.create made" in caplog.text
    assert "Nests._sit made" in caplog.text


async def told_last(events: Any) -> str | None:
    try:
        kind: str = (await events.next())[0]
    except EOFError:
        return None
    return kind


class Forgetful(VirtualCollection[Cave]):
    """Its methods forget to return anything, and its watch says what no client knows."""

    async def get(self, name: str, ctx: Context) -> Cave | None:
        return "cave" if name == "text" else None  # type: ignore[return-value]

    async def list(self, ctx: Context) -> Any:
        return None

    async def create(self, new: Cave, ctx: Context) -> Any:
        return None

    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Cave]]:
        yield "ADDED", Cave(metadata=ObjectMeta(name="a"))
        yield "CHANGED", Cave(metadata=ObjectMeta(name="a"))


@walk
async def test_a_method_that_returns_something_else_is_named(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Forgetful]), raise_server_exceptions=False) as api:
        assert (await api.get(CAVES + "/text")).status == 500
        assert (await api.get(CAVES)).status == 500
        assert (await api.post(CAVES, {"metadata": {"name": "new"}})).status == 500
        async with api.watch(CAVES) as events:
            assert (await events.next())[0] == "ADDED"
            assert await told_last(events) in (None, "ERROR")
    for told in (
        "Forgetful.get: expected a ",
        "Forgetful.list returned None: it returns objects",
        "Forgetful.create: expected a ",
        "Forgetful.watch yielded 'CHANGED': an event is ADDED",
    ):
        assert told in caplog.text


class Polite(Admission[Nest]):
    """Answers, where it should raise."""

    async def validate(self, review: Review[Nest]) -> Any:
        return {"no": False, "list": [Denied("no")]}.get(review.name)


class Makes(Admission[Nest]):
    """Makes another object, where it should change the one it is shown."""

    async def mutate(self, review: Review[Nest]) -> Any:
        return Nest() if review.name == "other" else None


@walk
async def test_a_plugin_that_answers_instead_of_raising_refuses_nothing_in_silence(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Nest], admission=[Makes(), Polite()]), raise_server_exceptions=False) as api:
        for name in ("no", "list", "other"):
            assert (await api.post(NESTS, nest(name))).status == 500
        assert (await api.post(NESTS, nest("a"))).status == 201
    assert "Polite.validate returned False: it raises what it refuses with" in caplog.text
    assert "Polite.validate returned [" in caplog.text
    assert "Makes.mutate returned Nest(" in caplog.text


class Curt(Authorizer):
    """Says yes, where a decision is wanted."""

    async def decide(self, user: User, target: Target) -> Any:
        return True


@walk
async def test_an_authorizer_that_decides_nothing_lets_nobody_in(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Nest], authorizer=Curt())) as api:
        assert (await api.get(NESTS)).status == 500
    assert "Curt.decide returned True: it returns a Decision" in caplog.text


@walk
async def test_what_a_client_sends_stays_the_clients_fault_whatever_hooks_change() -> None:
    async with server() as api:
        work["prepare"] = colour("blue")
        assert (await api.post(NESTS, nest(eggs="many"))).status == 400
        tree = await made(api, NESTS, nest())
        assert tree["spec"]["colours"] == ["blue"]


class Den(pydantic.BaseModel):
    """A nest of a type that somebody else wrote."""

    cubs: int = 1


class Dens(StoredCollection[Den], of=Foreign(pydantic_shape(Den), group=GROUP, version="v1", kind="Den")):
    def prepare(self, new: Den, old: Den | None, ctx: Context) -> None:
        new.cubs = "many"  # type: ignore[assignment]


@pytest.mark.filterwarnings("ignore::UserWarning")
@walk
async def test_a_foreign_type_that_no_longer_fits_is_the_hooks_fault(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Dens])) as api:
        blamed_on_us(await api.post(path("dens", version="v1"), {"metadata": {"name": "a"}}))
    assert "Dens.prepare made an object that can't be kept: cubs: " in caplog.text


def rename(thing: Any) -> None:
    thing.metadata.name = "another"


def move(thing: Any) -> None:
    thing.metadata.namespace = "elsewhere"


def replace_it(thing: Any) -> None:
    thing.metadata = ObjectMeta(name=thing.metadata.name, namespace=thing.metadata.namespace, uid="mine")


@pytest.mark.parametrize("where", ["default", "prepare"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(("wrong", "field"), [(rename, "name"), (move, "namespace"), (replace_it, "uid")])
@walk
async def test_a_hook_that_makes_another_object_of_it_is_refused(
    where: str, method: str, wrong: Work, field: str, caplog: Any
) -> None:
    if where == "default" and method == "POST" and field != "name":
        return  # before a create has settled these, there is nothing to change
    async with server() as api:
        body, url = nest(), NESTS
        if method == "PUT":
            body, url = await made(api, NESTS, nest()), f"{NESTS}/a"
        work[where] = wrong
        blamed_on_us(await api.request(method, url, body))
        assert f"it changed metadata.{field} from " in caplog.text
        work.clear()
        assert (await api.get(f"{NESTS}/another")).status == 404


@walk
async def test_labels_annotations_and_finalizers_may_be_set() -> None:
    def label(new: Any) -> None:
        new.metadata.labels["by"] = "prepare"
        new.metadata.finalizers.append("walk.example.com/x")

    async with server() as api:
        work["prepare"] = label
        tree = await made(api, NESTS, nest())
        assert tree["metadata"]["labels"] == {"by": "prepare"}
        assert tree["metadata"]["finalizers"] == ["walk.example.com/x"]


def slow(seconds: float) -> Work:
    return lambda thing: CLOCK.advance(seconds)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("default", "Nest.default"),
        ("mutate", "Keeper.mutate"),
        ("prepare", "Nests.prepare"),
        ("validate", "Nests.validate"),
        ("admission", "Keeper.validate"),
    ],
)
@walk
async def test_a_hook_that_holds_the_loop_is_named(where: str, name: str, caplog: Any) -> None:
    async with server() as api:
        work[where] = slow(0.25)
        await made(api, NESTS, nest())
        (said,) = [one.getMessage() for one in caplog.records if one.name == "oarlock.hooks"]
        assert said == f"{name} held the event loop for 250 ms: nobody else was answered meanwhile"


@walk
async def test_a_hook_that_holds_the_loop_is_named_once_a_minute(caplog: Any) -> None:
    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == "oarlock.hooks"]

    async with server() as api:
        work["prepare"] = slow(0.2)
        for n in range(5):
            await made(api, NESTS, nest(f"a{n}"))
        assert len(said()) == 1
        CLOCK.advance(QUIET_S)
        await made(api, NESTS, nest("later"))
        assert said()[1:] == [
            "Nests.prepare held the event loop for 200 ms: nobody else was answered meanwhile "
            "(and 4 times since that was said last)"
        ]


@walk
async def test_what_is_quick_enough_is_not_named(caplog: Any) -> None:
    async with server() as api:
        work["prepare"] = work["mutate"] = slow(0.09)
        await made(api, NESTS, nest())
    assert [one for one in caplog.records if one.name == "oarlock.hooks"] == []


class Patient(Admission[Nest]):
    """Waits for a long time, and holds the loop only now and then."""

    def __init__(self, steps: list[tuple[str, float]]) -> None:
        self.steps = steps

    async def validate(self, review: Review[Nest]) -> None:
        for how, seconds in self.steps:
            if how == "wait":
                await _moment(seconds)
            else:
                CLOCK.advance(seconds)


async def _moment(seconds: float) -> None:
    """Somebody else's work, `seconds` of it."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(lambda: (CLOCK.advance(seconds), done.set_result(None)))
    await done


@walk
async def test_waiting_holds_nobody(caplog: Any) -> None:
    steps = [("wait", 5.0), ("hold", 0.05), ("wait", 5.0)]
    async with InMemory(APIServer(serve=[Nests], admission=[Patient(steps)]), clock=CLOCK) as api:
        await made(api, NESTS, nest())
        assert [one for one in caplog.records if one.name == "oarlock.hooks"] == []
        steps.append(("hold", 0.3))
        await made(api, NESTS, nest("b"))
    assert "Patient.validate held the event loop for 300 ms" in caplog.text


class Ponderous(Authorizer):
    async def decide(self, user: User, target: Target) -> Decision:
        CLOCK.advance(0.15)
        return Decision.allow()


@walk
async def test_an_authorizer_that_holds_the_loop_is_named(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Nests], authorizer=Ponderous()), clock=CLOCK) as api:
        assert (await api.get(NESTS)).status == 200
    assert "Ponderous.decide held the event loop for 150 ms" in caplog.text


@walk
async def test_a_plugin_that_is_cancelled_while_it_is_timed_ends_as_it_should() -> None:
    ended: list[str] = []

    class Stuck(Admission[Nest]):
        async def validate(self, review: Review[Nest]) -> None:
            try:
                async with asyncio.timeout(1):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                ended.append("in time")
                raise
            finally:
                ended.append("finally")

    async with InMemory(APIServer(serve=[Nests], admission=[Stuck()]), raise_server_exceptions=False) as api:
        assert (await api.post(NESTS, nest())).status == 500
    assert ended == ["in time", "finally"]


@walk
async def test_what_is_done_to_a_large_object_beside_the_loop_holds_nobody(caplog: Any) -> None:
    async with server() as api:
        work["default"] = slow(0.5)
        await made(api, NESTS, nest(colours=["blue"] * 20_000))
    assert [one for one in caplog.records if one.name == "oarlock.hooks"] == []


def returning(make: Callable[[], Any]) -> Any:
    """An authorizer whose method only its decorator knows to wait."""

    async def decide(self: Any, user: User, target: Target) -> Decision:
        raise AssertionError("the wrapper answers")

    @functools.wraps(decide)
    def wrapper(self: Any, user: User, target: Target) -> Any:
        return make()

    return type("Odd", (Authorizer,), {"decide": wrapper})()


def _task() -> Any:
    async def slowly() -> Decision:
        await asyncio.sleep(0)
        return Decision.allow()

    return asyncio.ensure_future(slowly())


def _future() -> Any:
    future = asyncio.get_running_loop().create_future()
    future.get_loop().call_soon(future.set_result, Decision.allow())
    return future


class _Awaitable:
    def __await__(self) -> Iterator[None]:
        yield from asyncio.sleep(0).__await__()
        return Decision.allow()


@pytest.mark.parametrize("make", [_task, _future, _Awaitable])
@walk
async def test_whatever_can_be_waited_for_is(make: Callable[[], Any]) -> None:
    async with InMemory(APIServer(serve=[Nests], authorizer=returning(make))) as api:
        assert (await api.get(NESTS)).status == 200


@walk
async def test_what_can_not_be_waited_for_is_named(caplog: Any) -> None:
    async with InMemory(APIServer(serve=[Nests], authorizer=returning(Decision.allow))) as api:
        assert (await api.get(NESTS)).status == 500
    assert "Odd.decide returned Decision(" in caplog.text
    assert "isn't async" in caplog.text
