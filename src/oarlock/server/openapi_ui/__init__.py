"""Swagger UI at ``/openapi/ui/``, from files of the package."""
