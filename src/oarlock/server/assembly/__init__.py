"""How a server is put together, started and stopped. Read `run` first."""
