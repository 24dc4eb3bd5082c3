"""Objects in the store: their keys, their bytes, and the records of their definitions. Read `resource`, then `form`."""
