"""How a server is put together, started and stopped. Read `parts` first, then `run` and `lifecycle`."""
