"""``oarlock proto``: the ``.proto`` file of a numbered version, and its lock. Loaded by that command only.

Reading and writing numbered types is ``schema.structural.proto_numbers`` and ``codec.protowire``, which servers need.
See also: `command`.
"""
