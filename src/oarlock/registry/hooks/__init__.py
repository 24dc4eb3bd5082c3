"""Users' code for a resource: the base classes of collections, and how their methods are called."""
