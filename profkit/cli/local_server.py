"""A web server for the files of one folder, for the browser of this machine and user alone.

It listens on 127.0.0.1. Addresses begin with a secret, and requests must name this host, so that
neither other users nor other web pages can read what it serves. They may name any port, as ssh
forwards from another one.
"""

import mimetypes
import secrets
import shutil
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")

_TIMELINES = (".trace.json", ".trace.json.gz", ".pftrace")
"""Endings of files that a browser gets as the page that hands them to Perfetto."""

_RAW = "raw"
"""Query of the address of the file itself."""

_PERFETTO = Path(__file__).parent / "assets" / "perfetto.html"


class LocalServer(ThreadingHTTPServer):
    """Serves the files below a folder, and no list of them."""

    daemon_threads = True

    def __init__(self, folder: Path, extra: Mapping[str, Path], port: int = 0) -> None:
        """Listen at `port`, 0 for any; `extra` are files from elsewhere, by their names here."""
        self.folder = folder.resolve()
        self.extra = dict(extra)
        self.token = secrets.token_urlsafe(16)
        super().__init__((HOST, port), partial(_Handler, self))

    @property
    def host(self) -> str:
        """Host and port, as a browser names them."""
        return f"{HOST}:{self.server_port}"

    def address(self, name: str) -> str:
        """Return the address of a file below the folder, or of an extra one, and a place in it."""
        file, mark, place = name.partition("#") if name not in self.extra else (name, "", "")
        return f"http://{self.host}/{self.token}/{quote(file)}{mark}{place}"

    def file(self, path: str) -> Path | None:
        """Return the file that the path of an address means; None if there is none to be served."""
        name = self._name(path)
        if name is None:
            return None
        if name in self.extra:
            return self.extra[name]
        # Resolved, so that neither dots nor links lead out of the folder.
        found = (self.folder / name).resolve()
        if not found.is_relative_to(self.folder) or not found.is_file():
            return None
        is_hidden = any(part.startswith(".") for part in found.relative_to(self.folder).parts)
        return None if is_hidden else found

    def _name(self, path: str) -> str | None:
        """Return the name in the path of an address; None if it does not begin with the secret."""
        token, _, name = unquote(path).removeprefix("/").partition("/")
        is_known = secrets.compare_digest(token.encode(), self.token.encode())
        return name if is_known and "\0" not in name else None

    def is_timeline(self, file: Path) -> bool:
        """Say whether a browser gets the page that hands `file` to Perfetto."""
        endings = (".json", ".json.gz") if file in self.extra.values() else ()
        return file.name.endswith((*_TIMELINES, *endings))


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    def __init__(self, local: LocalServer, *arguments: object) -> None:
        self.local = local
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Send the file, or the page that hands it over."""
        url = urlsplit(self.path)
        # A page whose name leads to this address would have its own name here.
        name, _, port = self.headers.get("Host", "").partition(":")
        if name not in _NAMES or not (port or "0").isdigit():
            explained = f"open this as {' or '.join(_NAMES)}, as profkit open printed it"
            self.send_error(HTTPStatus.FORBIDDEN, explain=explained)
            return
        file = self.local.file(url.path)
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(_PERFETTO if self.local.is_timeline(file) and url.query != _RAW else file)

    do_HEAD = do_GET  # noqa: N815 - name of the base

    def _send(self, file: Path) -> None:
        kind, encoding = mimetypes.guess_type(file.name)
        # As it is: a browser would unpack what is declared as packed.
        kind = "application/octet-stream" if encoding else kind or "application/octet-stream"
        try:
            opened = file.open("rb")
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with opened:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(file.stat().st_size))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                shutil.copyfileobj(opened, self.wfile)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base
        """Print nothing for each request."""
