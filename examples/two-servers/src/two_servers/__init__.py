"""The API of shop.example.com: `api` says what clients see, `server` lists what is served."""
