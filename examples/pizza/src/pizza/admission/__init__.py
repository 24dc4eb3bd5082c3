"""Who may write what."""
