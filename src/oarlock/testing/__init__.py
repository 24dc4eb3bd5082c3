"""What users import in their tests: the real server in memory, a clock they move, and contract suites.

Nothing here is a double of our own code: `server.InMemory` runs the whole chain, only without sockets.
"""
