"""A committed ``.proto`` file as the lock of a version's field numbers.

A number that is given to another field, or a field that gets another number or type, is read wrongly by every client
built before, and by this server from bytes of theirs. So the file that was printed last is read back and compared:
what breaks clients is refused, what was removed keeps its number reserved.
Must not know: files. Source: protobuf language guide, "updating a message type". Next: `reading`, `text`.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.cli.proto.reading import Messages, ProtoTextError, ReadField, ReadMessage, Reserved, read_proto
from oarlock.cli.proto.text import proto_text
from oarlock.schema.definition import ResourceDefinition

__all__ = ["is_locked", "locked_text", "number_changes"]


def number_changes(definition: ResourceDefinition, version: str, locked: str) -> list[str]:
    """What breaks clients of the file `locked`, a line for each message and field. Raises ProtoTextError."""
    before, now = read_proto(locked), read_proto(proto_text(definition, version))
    return list(_changes(before, now, (definition.names.kind, definition.names.kind), set()))


def locked_text(definition: ResourceDefinition, version: str, locked: str) -> str:
    """The file to commit next: as it is printed, with what `locked` has and the classes no longer have reserved.

    `number_changes` must have found nothing. Raises ProtoTextError.
    """
    before, plain = read_proto(locked), proto_text(definition, version)
    reserved: dict[str, tuple[Reserved, ...]] = {}
    _reserve(before, read_proto(plain), (definition.names.kind, definition.names.kind), reserved)
    return proto_text(definition, version, reserved)


def is_locked(definition: ResourceDefinition, version: str, locked: str) -> bool:
    """Whether `locked` has every field as it is now; comments and layout may differ. Raises ProtoTextError."""
    return read_proto(locked) == read_proto(locked_text(definition, version, locked))


def _changes(before: Messages, now: Messages, names: tuple[str, str], seen: set[tuple[str, str]]) -> Iterator[str]:
    """Messages are told by the fields that lead to them: `names` are those of one then and now."""
    if names in seen:
        return
    seen.add(names)
    name = names[1]
    old, new = before.get(names[0]), now.get(name)
    if old is None or new is None:
        raise ProtoTextError(f"there is no message {name if new is None else names[0]} in it")
    numbers = {field.name: number for number, field in new.fields.items()}
    for number, was in old.fields.items():
        at = numbers.get(was.name)
        if at is not None and at != number and _same(was, new.fields[at]):
            yield f"message {name}, field {was.name}: its number was {number}, now it is {at}: give it {number} again"
        elif number in new.fields:
            yield from _change(name, number, was, new.fields[number])
    for number, field in new.fields.items():
        for gone in old.reserved:
            if gone.first <= number <= gone.last:
                was_called = f" of {gone.note}" if gone.note else ""
                yield (
                    f"message {name}, field {field.name}: {number} was the number{was_called}, which was removed: "
                    "give it another"
                )
    for number, was in old.fields.items():
        is_now = new.fields.get(number)
        if is_now is not None and was.kind in before and is_now.kind in now:
            yield from _changes(before, now, (was.kind, is_now.kind), seen)


def _change(message: str, number: int, was: ReadField, is_now: ReadField) -> Iterator[str]:
    if was.name != is_now.name:
        yield (
            f"message {message}, field {is_now.name}: {number} is the number of {was.name}: give it another, or if it "
            f"is {was.name} by a new name, write that name into the file"
        )
    elif not _same(was, is_now):
        yield (
            f"message {message}, field {was.name}: number {number} was {was}, now it is {is_now}: "
            "give it another number"
        )


def _same(was: ReadField, is_now: ReadField) -> bool:
    """Whether both are written alike. Messages of ours are named after their place; theirs have a package."""
    if was.label != is_now.label:
        return False
    return was.kind == is_now.kind or (was.is_message and is_now.is_message)


def _reserve(
    before: Messages, now: Messages, names: tuple[str, str], reserved: dict[str, tuple[Reserved, ...]]
) -> None:
    if names[1] in reserved:
        return
    old, new = before[names[0]], now[names[1]]
    gone = [Reserved(number, number, field.name) for number, field in old.fields.items() if number not in new.fields]
    reserved[names[1]] = tuple(sorted((*old.reserved, *gone), key=lambda one: one.first))
    for was, is_now in _kept(old, new):
        if was.kind in before and is_now.kind in now:
            _reserve(before, now, (was.kind, is_now.kind), reserved)


def _kept(old: ReadMessage, new: ReadMessage) -> Iterator[tuple[ReadField, ReadField]]:
    for number, was in old.fields.items():
        if number in new.fields:
            yield was, new.fields[number]
