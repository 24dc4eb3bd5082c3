"""Policies in CEL: what must be true of requests. A pure engine, given the policies and bindings as trees.

`compiled` makes a policy's programs, once; `matching` says which requests it is about; `evaluation` runs it.
Must not know: where policies are kept, HTTP. Source: KEP-3488.
"""

from __future__ import annotations
