"""The types of hello.zeng.dev and transformation.zeng.dev. Nothing of a server is imported here."""
