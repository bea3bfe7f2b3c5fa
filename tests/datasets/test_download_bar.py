"""A download shows how much of it has come."""

import http.server
import os
import sys
import threading

import pytest

import trainkit as tk
from trainkit.datasets import download_bar

SIZE = 3_000_000


class Handler(http.server.BaseHTTPRequestHandler):
    """One file, with its length or without it."""

    def do_GET(self):
        self.send_response(200)
        if "unknown" not in self.path:
            self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        self.wfile.write(b"x" * SIZE)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def address():
    """A server on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.filterwarnings("ignore:SHA256 hash of downloaded file")
def test_a_terminal_gets_a_bar(address, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(download_bar, "_SECONDS_BETWEEN_DRAWS", -1.0)
    path = tk.keras.utils.get_file("a.bin", f"{address}/a.bin", cache_dir=tmp_path)
    assert os.path.getsize(path) == SIZE
    text = capsys.readouterr().out
    assert "Downloading a.bin  1.0/3.0 MB ━━━━━━╌" in text
    assert " left" in text
    assert text.split("\r")[-1].startswith("Downloaded a.bin  3.0 MB - ")


@pytest.mark.parametrize("name", ["a.bin", "unknown.bin"])
def test_a_file_gets_a_line(address, tmp_path, capsys, name):
    tk.keras.utils.get_file(name, f"{address}/{name}", cache_dir=tmp_path)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"Downloaded {name}  3.0 MB - ")
