"""What a server shows of admission."""
