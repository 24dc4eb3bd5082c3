"""The API of db.example.com: `api` says what clients see, `server` lists what is served."""
