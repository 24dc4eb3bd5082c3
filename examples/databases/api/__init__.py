"""What clients of the databases example see. Imports nothing of the server, so that they can import it."""
