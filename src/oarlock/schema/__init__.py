"""What an object may be: schemas, and the pure functions that default, prune, validate and convert trees.

`definition` is the waist of the house: every way to declare a resource ends there, everything that
serves one starts there. No async, no I/O, no clock.
"""
