"""The types of inventory.example.com. Nothing of a server is imported here."""
