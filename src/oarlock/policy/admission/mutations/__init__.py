"""Policies in CEL that change what is written. A pure engine, given the policies and bindings as trees.

`compiled` makes a policy's programs, once; `patch_values` makes patches of what they compute; `applying` applies those.
What policies of both kinds have in common is in ``policies``. Must not know: where policies are kept, HTTP.
Source: KEP-3962.
"""

from __future__ import annotations
