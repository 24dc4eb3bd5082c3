"""The API of warehouse.example.com: `api` says what clients see, `server` lists what is served."""
