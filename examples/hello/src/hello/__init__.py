"""The API of hello.zeng.dev: `api` says what clients see, `server` lists what is served."""
