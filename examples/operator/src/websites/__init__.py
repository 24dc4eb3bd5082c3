"""The API of web.example.com: `api` says what clients see, `server` lists what is served."""
