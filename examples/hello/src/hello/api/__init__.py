"""What clients see, by version. Imports nothing of the server, so that they can import it too."""
