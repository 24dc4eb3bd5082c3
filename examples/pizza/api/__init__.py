"""What clients of the pizza example see. Imports nothing of the server, so that they can import it."""
