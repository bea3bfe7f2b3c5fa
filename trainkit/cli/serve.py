"""`python -m trainkit serve`: a model over HTTP.

python -m trainkit serve model.h5
python -m trainkit serve model.keras --host 0.0.0.0 --port 8080 --max-bytes 1000000 --timeout 5
"""

from __future__ import annotations

import argparse
import sys

from trainkit.cli.serving.model_server import MAX_BYTES, TIMEOUT_SECONDS, ModelServer
from trainkit.cli.serving.servable import Servable
from trainkit.core.files.printable import printable_line

HELP = "answer requests for predictions over HTTP"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "model", help="a saved graph (HDF5), the folder of a saved model, or a .keras file"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=int, default=8000, help="port, 0 for any free one (%(default)s)"
    )
    parser.add_argument("--name", help="what the model is called in paths; by default as its file")
    parser.add_argument(
        "--max-bytes",
        type=int,
        default=MAX_BYTES,
        help="the most bytes of a request's body (%(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_SECONDS,
        help="seconds that a client, and a prediction, may take (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted.

    Raises:
        ValueError: the model can't be read, or a limit or the port makes no sense.
        OSError: the address can't be listened on.
    """
    if not 0 <= args.port < 1 << 16:
        raise ValueError(f"--port is {args.port}; ports are 0 to 65535")
    servable = Servable.read(args.model)
    servable.name = args.name or servable.name
    server = ModelServer(servable, args.host, args.port, args.max_bytes, args.timeout)
    with server:
        print(f"{printable_line(servable.name)}: {server.url}, {server.model_path}:predict")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")
    return 0
