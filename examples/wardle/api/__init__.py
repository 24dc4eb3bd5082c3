"""The types of wardle.example.com. Nothing of a server is imported here, so clients may use them too."""
