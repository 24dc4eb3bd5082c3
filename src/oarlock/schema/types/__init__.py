"""Declared classes as schemas: hints become schemas, and trees become typed objects and back."""
