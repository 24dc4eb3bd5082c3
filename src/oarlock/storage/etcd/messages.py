"""The messages of etcd's API that this backend uses, with the fields it uses, made when this is imported.

The numbers are those of etcd's ``rpc.proto`` and ``kv.proto`` (3.4 to 3.6). The descriptors are in a pool of their own,
so other clients of etcd in the process aren't disturbed. An enum is an ``int32``: it looks the same on the wire.

Must not know: connections. See also: `client`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["DELETE", "EQUAL", "MOD", "NOSPACE", "VERSION", "Message", "Messages", "messages"]

Message = Any
"""A message of protobuf; its fields are made at run time."""

DELETE: Final = 1
"""`Event.type` of a deletion; 0 is a put."""
EQUAL: Final = 0
"""`Compare.result`."""
VERSION: Final = 0
MOD: Final = 2
"""`Compare.target`."""
NOSPACE: Final = 1
"""`AlarmMember.alarm`; 2 is CORRUPT."""

_PACKAGE = "etcdserverpb"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}

_MESSAGES: Final = """
ResponseHeader: uint64 cluster_id 1, uint64 member_id 2, int64 revision 3
KeyValue: bytes key 1, int64 create_revision 2, int64 mod_revision 3, int64 version 4, bytes value 5, int64 lease 6
Event: int32 type 1, KeyValue kv 2, KeyValue prev_kv 3
RangeRequest: bytes key 1, bytes range_end 2, int64 limit 3, int64 revision 4, bool keys_only 8, bool count_only 9
RangeResponse: ResponseHeader header 1, *KeyValue kvs 2, bool more 3, int64 count 4
PutRequest: bytes key 1, bytes value 2, int64 lease 3, bool ignore_lease 6
PutResponse: ResponseHeader header 1
DeleteRangeRequest: bytes key 1, bytes range_end 2, bool prev_kv 3
DeleteRangeResponse: ResponseHeader header 1, int64 deleted 2, *KeyValue prev_kvs 3
RequestOp: |RangeRequest request_range 1, |PutRequest request_put 2, |DeleteRangeRequest request_delete_range 3
ResponseOp: |RangeResponse response_range 1, |PutResponse response_put 2, |DeleteRangeResponse response_delete_range 3
Compare: int32 result 1, int32 target 2, bytes key 3, |int64 version 4, |int64 mod_revision 6
TxnRequest: *Compare compare 1, *RequestOp success 2, *RequestOp failure 3
TxnResponse: ResponseHeader header 1, bool succeeded 2, *ResponseOp responses 3
CompactionRequest: int64 revision 1
CompactionResponse: ResponseHeader header 1
WatchCreateRequest: bytes key 1, bytes range_end 2, int64 start_revision 3, bool prev_kv 6, bool fragment 8
WatchProgressRequest:
WatchRequest: |WatchCreateRequest create_request 1, |WatchProgressRequest progress_request 3
WatchResponse: ResponseHeader header 1, int64 watch_id 2, bool created 3, bool canceled 4, int64 compact_revision 5,\
 string cancel_reason 6, bool fragment 7, *Event events 11
LeaseGrantRequest: int64 TTL 1, int64 ID 2
LeaseGrantResponse: ResponseHeader header 1, int64 ID 2, int64 TTL 3, string error 4
LeaseRevokeRequest: int64 ID 1
LeaseRevokeResponse: ResponseHeader header 1
LeaseTimeToLiveRequest: int64 ID 1
LeaseTimeToLiveResponse: ResponseHeader header 1, int64 ID 2, int64 TTL 3, int64 grantedTTL 4
AlarmRequest: int32 action 1, uint64 memberID 2, int32 alarm 3
AlarmMember: uint64 memberID 1, int32 alarm 2
AlarmResponse: ResponseHeader header 1, *AlarmMember alarms 2
StatusRequest:
StatusResponse: ResponseHeader header 1, string version 2, int64 dbSize 3, uint64 leader 4, *string errors 8
HashKVRequest: int64 revision 1
HashKVResponse: ResponseHeader header 1, uint32 hash 2, int64 compact_revision 3
AuthenticateRequest: string name 1, string password 2
AuthenticateResponse: ResponseHeader header 1, string token 2
"""
"""A line is a message; ``*`` is repeated, ``|`` is a member of the message's one union."""


class Messages:
    """The classes of the messages, as attributes."""

    def __init__(self, classes: dict[str, Message]) -> None:
        self.__dict__.update(classes)

    def __getattr__(self, name: str) -> Message:
        raise AttributeError(name)


def _field(text: str, known: set[str]) -> tuple[descriptor_pb2.FieldDescriptorProto, bool]:
    kind, name, number = text.split()
    in_union, repeated, kind = kind[0] == "|", kind[0] == "*", kind.lstrip("|*")
    field = _Field(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if kind in known:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = _SCALARS[kind]
    return field, in_union


def _build() -> Messages:
    file = descriptor_pb2.FileDescriptorProto(name="oarlock_etcd.proto", package=_PACKAGE, syntax="proto3")
    known: set[str] = set()
    for line in filter(None, _MESSAGES.splitlines()):
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for text in filter(None, map(str.strip, fields.split(","))):
            field, in_union = _field(text, known)
            if in_union:
                if not message.oneof_decl:
                    message.oneof_decl.add(name="union")
                field.oneof_index = 0
            message.field.append(field)
        known.add(name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in known
    }
    return Messages(classes)


messages: Final = _build()
