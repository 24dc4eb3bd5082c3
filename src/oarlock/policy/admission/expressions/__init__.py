"""Expressions in CEL about a request: of policies, and of the conditions of webhooks. One engine for both.

`environment` says what they can name, `compiling` makes programs, `running` runs them on one request, `conditions`
are match conditions. `waiting` is the only module that waits: it finds out who may do what, and gives way.
Must not know: policies, webhooks, HTTP. Source: k8s.io/apiserver ``admission/plugin/cel``.
"""

from __future__ import annotations
