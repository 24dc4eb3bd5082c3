"""The API of podlogs.example.com: `api` says what clients see, `server` lists what is served."""
