"""Policies in CEL: what must be true of requests. A pure engine, given the policies and bindings as trees.

`engine` compiles policies, says which requests they are about, and runs them; `request_tree` is what they see.
Must not know: where policies are kept, HTTP. Source: KEP-3488.
"""

from __future__ import annotations
