"""Shared value types: API kinds, the request context, errors, options, selectors, times, names.

Standard library only; no async, no I/O, no clock. Every other package may import these modules
by name (``from oarlock.meta import errors``). Read `kinds`, then `context`, then `errors`.
"""
