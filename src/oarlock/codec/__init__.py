"""Decoding and encoding: bytes ↔ trees, in JSON, YAML, CBOR and protobuf.

A tree is made of plain dict, list, str, int, float, bool and None. Pure: no schemas, no kinds, no I/O.
Read `json`, then `yaml`.
"""
