"""Watches that go on by themselves, and the objects of a kind kept in memory. Read `watching`, then `informer`."""
