"""A committed ``.proto`` file as the lock of a version's field numbers.

A number that is given to another field, or a field that gets another number or type, is read wrongly by every client
built before, and by this server from bytes of theirs. So the file that was printed last is read back and compared:
what breaks clients is refused, what was removed keeps its number reserved.
Must not know: files. Source: protobuf language guide, "updating a message type". See also: `reading`, `text`.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.cli.proto.reading import (
    Messages,
    ProtoTextError,
    ProtoTextField,
    ProtoTextMessage,
    ReservedNumbers,
    read_proto,
)
from oarlock.cli.proto.text import proto_text
from oarlock.schema.definition import ResourceDefinition

__all__ = ["is_locked", "locked_text", "number_changes"]


def number_changes(definition: ResourceDefinition, version: str, locked: str) -> list[str]:
    """What breaks clients of the file `locked`, a line for each message and field. Raises ProtoTextError."""
    before, now = read_proto(locked), read_proto(proto_text(definition, version))
    return list(_changes(before, now, definition.names.kind, definition.names.kind, set()))


def locked_text(definition: ResourceDefinition, version: str, locked: str) -> str:
    """The file to commit next: as it is printed, with what `locked` has and the classes no longer have reserved.

    `number_changes` must have found nothing. Raises ProtoTextError.
    """
    before, plain = read_proto(locked), proto_text(definition, version)
    reserved: dict[str, tuple[ReservedNumbers, ...]] = {}
    _reserve(before, read_proto(plain), definition.names.kind, definition.names.kind, reserved)
    return proto_text(definition, version, reserved)


def is_locked(definition: ResourceDefinition, version: str, locked: str) -> bool:
    """Whether `locked` has every field as it is now; comments and layout may differ. Raises ProtoTextError."""
    return read_proto(locked) == read_proto(locked_text(definition, version, locked))


def _changes(
    before: Messages, now: Messages, old_name: str, new_name: str, compared: set[tuple[str, str]]
) -> Iterator[str]:
    """The changes of a message and of those its fields lead to. Its names differ if the path to it does."""
    if (old_name, new_name) in compared:
        return
    compared.add((old_name, new_name))
    old, new = before.get(old_name), now.get(new_name)
    if old is None or new is None:
        raise ProtoTextError(f"there is no message {new_name if new is None else old_name} in it")
    numbers = {field.name: number for number, field in new.fields.items()}
    for number, old_field in old.fields.items():
        at = numbers.get(old_field.name)
        if at is not None and at != number and _same(old_field, new.fields[at]):
            changed = f"its number was {number}, now it is {at}"
            yield f"message {new_name}, field {old_field.name}: {changed}: give it {number} again"
        elif number in new.fields:
            yield from _change(new_name, number, old_field, new.fields[number])
    for number, field in new.fields.items():
        for reserved in old.reserved:
            if reserved.first <= number <= reserved.last:
                owner = f" of {reserved.note}" if reserved.note else ""
                yield (
                    f"message {new_name}, field {field.name}: {number} was the number{owner}, which was removed: "
                    "give it another"
                )
    for number, old_field in old.fields.items():
        new_field = new.fields.get(number)
        if new_field is not None and old_field.kind in before and new_field.kind in now:
            yield from _changes(before, now, old_field.kind, new_field.kind, compared)


def _change(message: str, number: int, old_field: ProtoTextField, new_field: ProtoTextField) -> Iterator[str]:
    if old_field.name != new_field.name:
        yield (
            f"message {message}, field {new_field.name}: {number} is the number of {old_field.name}: give it another, "
            f"or if it is {old_field.name} by a new name, write that name into the file"
        )
    elif not _same(old_field, new_field):
        yield (
            f"message {message}, field {old_field.name}: number {number} was {old_field}, now it is {new_field}: "
            "give it another number"
        )


def _same(old_field: ProtoTextField, new_field: ProtoTextField) -> bool:
    """Whether both are written alike. Messages of ours are named after their place; theirs have a package."""
    if old_field.label != new_field.label:
        return False
    return old_field.kind == new_field.kind or (old_field.is_message and new_field.is_message)


def _reserve(
    before: Messages, now: Messages, old_name: str, new_name: str, reserved: dict[str, tuple[ReservedNumbers, ...]]
) -> None:
    if new_name in reserved:
        return
    old, new = before[old_name], now[new_name]
    removed = [
        ReservedNumbers(number, number, field.name) for number, field in old.fields.items() if number not in new.fields
    ]
    reserved[new_name] = tuple(sorted((*old.reserved, *removed), key=lambda one: one.first))
    for old_field, new_field in _fields_in_both(old, new):
        if old_field.kind in before and new_field.kind in now:
            _reserve(before, now, old_field.kind, new_field.kind, reserved)


def _fields_in_both(old: ProtoTextMessage, new: ProtoTextMessage) -> Iterator[tuple[ProtoTextField, ProtoTextField]]:
    for number, old_field in old.fields.items():
        if number in new.fields:
            yield old_field, new.fields[number]
