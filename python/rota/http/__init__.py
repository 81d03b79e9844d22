"""What a server shows over HTTP (docs/http.md): groups as JSON, and health. Nothing here changes any."""

from rota.http.listener import Listener, listen

__all__ = ["Listener", "listen"]
