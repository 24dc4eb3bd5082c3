"""CustomResourceDefinitions: served, named, and emptied when they are deleted. Read `serving` first."""
