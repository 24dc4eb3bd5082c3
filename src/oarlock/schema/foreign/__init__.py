"""Types of other libraries: pydantic models and dataclasses, served through a `Shape`."""
