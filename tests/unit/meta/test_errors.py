"""Errors say what they are about, or are told; field errors can be raised, compared and sent elsewhere."""

from __future__ import annotations

import copy
import pickle

import pytest

from oarlock.meta import errors, fielderrors
from oarlock.meta.context import Target
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.kinds import GroupKind, GroupResource

BOATS = GroupResource("walk.example.com", "boats")
TARGET = Target("update", "walk.example.com", "v1", "boats", namespace="ns", name="a", kind="Boat")
STARTED = Target("create", "walk.example.com", "v1", "boats", namespace="ns", kind="Boat")

WORDED = [
    (errors.Conflict, "sunk", 409, 'Operation cannot be fulfilled on boats.walk.example.com "a": sunk'),
    (errors.NotFound, "sunk", 404, 'boats.walk.example.com "a" not found: sunk'),
    (errors.NotFound, "", 404, 'boats.walk.example.com "a" not found'),
    (errors.AlreadyExists, "sunk", 409, 'boats.walk.example.com "a" already exists: sunk'),
    (errors.Forbidden, "sunk", 403, 'boats.walk.example.com "a" is forbidden: sunk'),
    (errors.Denied, "sunk", 403, 'boats.walk.example.com "a" is forbidden: sunk'),
]


@pytest.mark.parametrize(("kind", "why", "code", "message"), WORDED)
def test_an_error_with_a_text_alone_is_told_what_it_is_about(
    kind: type[errors.StatusError], why: str, code: int, message: str
) -> None:
    error = kind(why)
    assert error.message == (why or error.reason)
    told = error.about(TARGET)
    assert type(told) is kind
    assert (told.code, told.message) == (code, message)
    assert told.details == {"name": "a", "group": "walk.example.com", "kind": "boats"}
    assert told.about(Target("get", resource="others", name="z")).message == message
    assert error.message == (why or error.reason), "it may be raised again, about something else"


def test_a_name_that_only_the_body_has_is_told_too() -> None:
    error = errors.AlreadyExists("it is taken").about(STARTED, "b")
    assert error.message == 'boats.walk.example.com "b" already exists: it is taken'
    nameless = errors.Conflict().about(STARTED)
    assert nameless.message == f"Operation cannot be fulfilled on boats.walk.example.com: {errors.OPTIMISTIC_LOCK}"
    assert nameless.details == {"group": "walk.example.com", "kind": "boats"}


def test_an_error_that_says_what_it_is_about_stays_as_it_is() -> None:
    for error in (errors.NotFound(BOATS, "z"), errors.Conflict(GroupKind("g", "Boat"), "z"), errors.BadRequest("no")):
        assert error.about(TARGET, "b") is error


def test_nothing_is_filled_in_where_there_is_no_resource() -> None:
    error = errors.Forbidden("who are you").about(Target("get", path="/metrics"))
    assert error.message == "who are you"


def test_field_errors_alone_are_about_what_the_request_is_about() -> None:
    error = errors.InvalidObject([Invalid("spec.a", 1, "too small"), Required("spec.b")]).about(TARGET)
    assert error.message.startswith('Boat.walk.example.com "a" is invalid: [spec.a: Invalid value: 1: too small, ')
    assert error.details is not None
    assert error.details["kind"] == "Boat"
    assert [cause["field"] for cause in error.details["causes"]] == ["spec.a", "spec.b"]


EVERY = [
    fielderrors.Invalid("spec.a", {"b": [1]}, "no"),
    fielderrors.Invalid(path="spec.a", value=1, detail="no"),
    fielderrors.TypeInvalid("a", 1, "no"),
    fielderrors.WrongType("a", "an integer", "x"),
    fielderrors.Required("a", "really"),
    fielderrors.Forbidden("a", "no"),
    fielderrors.Duplicate("a", 1),
    fielderrors.NotFoundValue("a", 1),
    fielderrors.NotSupported("a", "x", ["y", "z"]),
    fielderrors.TooLong("a", 3),
    fielderrors.TooShort("a", 3),
    fielderrors.TooMany("a", 4, 3),
    fielderrors.TooFew("a", 3),
]


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_field_errors_can_be_raised_compared_and_pickled(error: FieldError) -> None:
    with pytest.raises(type(error)) as caught:
        raise error
    assert str(caught.value) == error.message
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert type(again) is type(error)
        assert again == error
        assert hash(again) == hash(error)
        assert (again.path, again.value, again.detail, again.cause()) == (
            error.path,
            error.value,
            error.detail,
            error.cause(),
        )
    assert error != fielderrors.Invalid("another", 1)


def test_of_very_many_field_errors_the_first_are_named_and_the_rest_counted() -> None:
    def refused(count: int) -> errors.InvalidObject:
        kind = GroupKind("example.com", "Thing")
        return errors.InvalidObject(kind, "a", [Required(f"spec.f{n}") for n in range(count)])

    whole = refused(errors.MOST_CAUSES)
    assert len(whole.status()["details"]["causes"]) == errors.MOST_CAUSES
    assert "more errors" not in whole.message
    many = refused(50_000)
    assert many.status()["details"] == whole.status()["details"]
    assert many.message == whole.message.removesuffix("]") + ", and 49900 more errors]"
