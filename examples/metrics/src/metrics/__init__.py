"""The API of metrics.example.com: `api` says what clients see, `server` lists what is served."""
