"""What is written about declared kinds for others: JSON Schemas for editors and checkers, and reference pages."""
