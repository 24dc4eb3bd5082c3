"""The nouns of the house: kinds, objects, errors, options, selectors, times, names.

Standard library only; no async, no I/O, no clock. Everything above imports these modules
by name (``from oarlock.meta import errors``). Read `kinds`, then `context`, then `errors`.
"""
