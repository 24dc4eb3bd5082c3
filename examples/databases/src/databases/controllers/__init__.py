"""Code that acts on what is stored, and tells how it is."""
