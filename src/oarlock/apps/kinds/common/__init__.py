"""What the declarations of kinds share: rules, defaults, first statuses, columns and cells."""
