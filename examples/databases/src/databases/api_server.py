"""The same without the controller, which is then a process of its own.

oarlock serve src/databases/api_server.py, and oarlock run src/databases/controllers/database.py
"""

from .server import make_server

server = make_server()

if __name__ == "__main__":
    server.main()
