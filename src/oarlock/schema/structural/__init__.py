"""A structural schema as nodes: what a field may be, parsed once."""
