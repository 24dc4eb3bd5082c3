"""Dataclasses of ours are dataclasses: what the standard library makes of the same class behaves the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from oarlock.meta.dataclass import dataclass as ours

OPTIONS = [{"frozen": frozen, "slots": slots, "eq": eq} for frozen in (0, 1) for slots in (0, 1) for eq in (0, 1)]


def point(make: Callable[..., Any], **options: Any) -> Any:
    @make(**options)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        note: str = field(default="n", compare=False, repr=False)
        made: int = field(default=7, init=False)
        late: list[int] = field(default_factory=list, init=False, hash=False)
        last: str = field(default="z", kw_only=True)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

    return Point


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "look",
    [
        lambda cls: repr(cls(1, last="q")).rpartition(".")[2],
        lambda cls: [(f.name, f.type, f.init) for f in fields(cls)],
        lambda cls: asdict(cls(1, tags=["t"])),
        lambda cls: asdict(replace(cls(1), y=5)),
        lambda cls: cls(1) == cls(1),
        lambda cls: cls(1) == cls(2),
        lambda cls: cls(1) == (cls(1, note="other")),
        lambda cls: cls(1) == 1,
        lambda cls: cls.__match_args__,
        lambda cls: cls.__doc__,
        lambda cls: [(p.name, p.kind) for p in inspect.signature(cls).parameters.values()],
        lambda cls: cls.__init__.__annotations__,
        lambda cls: cls(-1),
        lambda cls: cls(1).tags is cls(1).tags,
        lambda cls: (cls(1).made, cls(1).late, cls.kind),
        lambda cls: setattr(cls(1), "x", 3),
        lambda cls: delattr(cls(1), "x"),
        lambda cls: cls.__hash__ is None,
        lambda cls: asdict(copy.copy(cls(4))),
        lambda cls: asdict(copy.deepcopy(cls(4))),
        lambda cls: hasattr(cls(1), "__dict__"),
        lambda cls: dataclasses.is_dataclass(cls),
    ],
)
def test_a_class_of_ours_behaves_as_the_standard_librarys(
    options: dict[str, Any], look: Callable[[Any], object]
) -> None:
    assert outcome(lambda: look(point(ours, **options))) == outcome(
        lambda: look(point(dataclasses.dataclass, **options))
    )


@ours(frozen=True, slots=True)
class Pair:
    one: str
    two: int = 0


@ours(frozen=True, slots=True)
class Single:
    one: float


@ours(frozen=True, slots=True)
class Nothing:
    pass


def test_equal_values_have_equal_hashes() -> None:
    assert hash(Pair("a", 1)) == hash(Pair("a", 1))
    assert len({Pair("a"), Pair("a"), Pair("b")}) == 2
    assert len({Nothing(), Nothing()}) == 1
    assert Nothing() == Nothing()


def test_one_value_is_compared_as_in_a_tuple() -> None:
    not_a_number = float("nan")
    assert Single(not_a_number) == Single(not_a_number)


def test_objects_go_through_pickle_and_replace() -> None:
    assert pickle.loads(pickle.dumps(Pair("a", 3))) == Pair("a", 3)
    assert replace(Pair("a", 3), two=4) == Pair("a", 4)


def test_who_is_frozen_stays_so_in_a_class_that_inherits() -> None:
    @ours(frozen=True)
    class Derived(Pair):
        three: str = "3"

    derived = Derived("a", three="c")
    assert (derived.one, derived.two, derived.three) == ("a", 0, "c")
    for name in ("one", "three", "unknown"):
        with pytest.raises(FrozenInstanceError):
            setattr(derived, name, "x")
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        ours(type("Thawed", (Pair,), {"__annotations__": {"x": "int"}, "x": 1}))


@pytest.mark.parametrize("make", [ours, dataclasses.dataclass])
def test_a_class_inherits_from_one_that_the_other_made(make: Any) -> None:
    other = dataclasses.dataclass if make is ours else ours

    @other(frozen=True)
    class Base:
        a: int

    @make(frozen=True)
    class Derived(Base):
        b: int = 2

    assert asdict(Derived(1)) == {"a": 1, "b": 2}
    with pytest.raises(FrozenInstanceError):
        Derived(1).a = 2  # type: ignore[misc]
    assert Derived(1) == Derived(1)
    assert Derived(1) != Base(1)


def test_a_subclass_without_the_decorator_may_have_more_attributes() -> None:
    @ours(frozen=True)
    class Base:
        a: int

    class Plain(Base):
        pass

    plain = Plain(1)
    plain.more = 2  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        plain.a = 2  # type: ignore[misc]


def test_methods_of_the_class_itself_stay() -> None:
    @ours(frozen=True)
    class Own:
        a: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.a.lower() == other.a.lower()

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            return "own"

    assert (Own("A") == Own("a"), hash(Own("x")), repr(Own("x"))) == (True, 1, "own")


def test_an_object_that_holds_itself_can_be_shown() -> None:
    @ours
    class Loop:
        other: object = None

    loop = Loop()
    loop.other = loop
    assert repr(loop).endswith("Loop(other=...)")


def test_order_is_left_to_the_standard_library() -> None:
    @ours(frozen=True, slots=True, order=True)
    class Ordered:
        a: int

    assert Ordered(1) < Ordered(2)
