"""The API of restaurant.example.com: `api` says what clients see, `server` lists what is served."""
