"""A model over HTTP: TensorFlow Serving's format, npy, and all that goes wrong."""

import concurrent.futures
import http.client
import io
import json
import socket
import threading
import types
import zipfile
from collections import Counter

import numpy as np
import pytest

import trainkit as tk
from trainkit.cli.main import main
from trainkit.cli.serving.model_server import ModelServer
from trainkit.cli.serving.model_worker import BusyError, ModelWorker, UnfinishedError
from trainkit.cli.serving.servable import Servable

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def double(folder):
    f = tk.function(lambda x: x * 2.0, input_signature=[tk.TensorSpec([None, 3], name="x")])
    tk.saved_graph.save(f, folder / "double.h5")
    return Servable.read(folder / "double.h5")


@pytest.fixture(scope="module")
def two(folder):
    @tk.function(
        input_signature=[tk.TensorSpec([None], tk.int32, "a"), tk.TensorSpec([None], name="b")]
    )
    def f(a, b):
        return {"sum": tk.cast(a, tk.float32) + b, "log": tk.math.log(b)}

    tk.saved_graph.save(f, folder / "two.h5")
    return Servable.read(folder / "two.h5")


class Running:
    """A server in a thread, and a client of it."""

    def __init__(self, servable, **settings):
        self.server = ModelServer(servable, port=0, log=False, **settings)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def ask(self, method, path=None, body=None, **headers):
        client = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, path or f"{self.server.model_path}:predict", body, names)
        reply = client.getresponse()
        content = reply.read()
        client.close()
        return reply, content

    def post(self, body, content_type="application/json", **headers):
        body = json.dumps(body).encode() if not isinstance(body, bytes) else body
        reply, content = self.ask("POST", None, body, Content_Type=content_type, **headers)
        kind = reply.headers.get_content_type()
        return reply.status, json.loads(content) if kind == "application/json" else content

    def raw(self, data):
        """What the server answers to bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), timeout=60) as line:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            parts = []
            while part := line.recv(65536):
                parts.append(part)
        return b"".join(parts)


@pytest.fixture(scope="module")
def one(double):
    with Running(double) as running:
        yield running


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


# ---------------------------------------------------------------------- what is answered


def test_instances_give_predictions_and_inputs_give_outputs(one):
    assert one.post({"instances": X.tolist()}) == (200, {"predictions": (X * 2).tolist()})
    assert one.post({"inputs": X.tolist()}) == (200, {"outputs": (X * 2).tolist()})
    assert one.post({"inputs": {"x": X.tolist()}}) == (200, {"outputs": (X * 2).tolist()})
    assert one.post({"instances": [{"x": [1, 2, 3]}], "signature_name": "serving_default"}) == (
        200,
        {"predictions": [[2.0, 4.0, 6.0]]},
    )


def test_several_inputs_and_results_go_by_name(two):
    with Running(two) as running:
        status, answer = running.post({"instances": [{"a": 1, "b": 1.0}, {"a": 2, "b": 1}]})
        assert (status, answer["predictions"][1]) == (200, {"sum": 3.0, "log": 0.0})
        status, answer = running.post({"inputs": {"a": [1], "b": [1.0]}})
        assert (status, answer) == (200, {"outputs": {"sum": [2.0], "log": [0.0]}})
        body = npz(a=np.array([1], "int32"), b=np.array([1.0]))
        status, answer = running.post(body, "application/x-npz")
        assert status == 200
        with np.load(io.BytesIO(answer)) as found:
            assert found["sum"].tolist() == [2.0]
        reply, text = running.ask(
            "POST", None, npy(X), Content_Type="application/x-npy", Accept="application/x-npy"
        )
        assert (reply.status, b"send them as npz" in text) == (400, True)


def test_npy_comes_back_as_npy_and_as_what_is_accepted(one):
    status, answer = one.post(npy(X), "application/x-npy")
    assert status == 200
    np.testing.assert_array_equal(np.load(io.BytesIO(answer)), X * 2)
    fortran = npy(np.asfortranarray(X.astype(">f8")))
    assert one.post(fortran, "application/x-npy", Accept="application/json") == (
        200,
        {"outputs": (X * 2).tolist()},
    )
    _, answer = one.post({"inputs": X.tolist()}, Accept="application/x-npz")
    assert np.load(io.BytesIO(answer))["output_0"].tolist() == (X * 2).tolist()


def test_status_and_metadata_are_tensorflow_servings(one):
    reply, content = one.ask("GET", "/v1/models/double")
    assert (reply.status, json.loads(content)["model_version_status"][0]["state"]) == (
        200,
        "AVAILABLE",
    )
    reply, content = one.ask("GET", "/v1/models/double/versions/1/metadata")
    signature = json.loads(content)["metadata"]["signature_def"]["signature_def"]
    assert signature["serving_default"]["inputs"]["x"] == {
        "name": "x",
        "dtype": "DT_FLOAT",
        "tensor_shape": {
            "dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}],
            "unknown_rank": False,
        },
    }
    reply, content = one.ask("HEAD", "/v1/models/double")
    assert (reply.status, content) == (200, b"")


def test_keras_files_and_folders_are_served(folder):
    model = tk.Sequential([tk.keras.Input((3,)), tk.layers.Dense(2)])
    model.save(folder / "small.keras")
    model.export(folder / "exported", verbose=False)
    expected = model(X).numpy().tolist()
    for path in ("small.keras", "exported"):
        with Running(Servable.read(folder / path)) as running:
            assert running.post({"instances": X.tolist()}) == (200, {"predictions": expected})


def test_the_page_escapes_names_and_takes_nothing_from_elsewhere(double):
    servable = Servable("<script>alert('é')</script>", double.signatures)
    with Running(servable) as running:
        reply, content = running.ask("GET", "/")
        page = content.decode()
        assert reply.status == 200
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(&#x27;é&#x27;)" in page
        assert "http" not in page.replace("http-equiv", "")
        assert "float32[any, 3]" in page
        assert running.post({"inputs": X.tolist()})[0] == 200


def test_a_connection_serves_several_requests(one):
    client = http.client.HTTPConnection("127.0.0.1", one.server.server_port, timeout=60)
    for _ in range(3):
        client.request("GET", "/v1/models/double")
        assert client.getresponse().read()
    client.close()


def test_many_at_once_are_all_answered(one):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = [{"instances": (X + i).tolist()} for i in range(48)]
        for i, (status, answer) in enumerate(pool.map(one.post, bodies)):
            assert (status, answer) == (200, {"predictions": ((X + i) * 2).tolist()})


# ---------------------------------------------------------------------- what is refused

OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([{"a": 1}], object), allow_pickle=True)
BOMB = io.BytesIO()
with zipfile.ZipFile(BOMB, "w", zipfile.ZIP_DEFLATED) as _archive:
    _archive.writestr("x.npy", bytes(70 << 20))

REFUSED = [
    (b"{", "application/json", 400, "the body is no JSON"),
    (b"\xff", "application/json", 400, "no UTF-8"),
    (b'{"inputs": [[1, NaN, 2]]}', "application/json", 400, "NaN is no number"),
    (b'{"inputs": [[1, 1e999, 2]]}', "application/json", 400, "too large"),
    (b'{"inputs": [[1, -Infinity, 2]]}', "application/json", 400, "-Infinity is no number"),
    (b"[" * 100_000, "application/json", 400, "nested too deep"),
    (b'{"inputs": ' + b"[" * 40 + b"]" * 40 + b"}", "application/json", 400, "nested 40 deep"),
    (b"[1]", "application/json", 400, "either"),
    (b'{"inputs": [], "instances": []}', "application/json", 400, "either"),
    (b'{"instances": []}', "application/json", 400, "at least one example"),
    (b'{"inputs": [], "more": 1}', "application/json", 400, "the body has more; it may have"),
    (b'{"inputs": [[1, 2, 3], [1]]}', "application/json", 400, "different length: 3 and 1"),
    (b'{"inputs": [[1, 2, [3]]]}', "application/json", 400, "different depth"),
    (b'{"inputs": [["a", 2, 3]]}', "application/json", 400, 'holds \\"a\\", which is no number'),
    (b'{"inputs": [[1, 2, true]]}', "application/json", 400, "holds true"),
    (
        b'{"inputs": [[1, 2]]}',
        "application/json",
        400,
        "needs float32[any, 3], given is int64[1, 2]",
    ),
    (b'{"inputs": {"y": 1}}', "application/json", 400, "takes 'x' (float32[any, 3]); given: 'y'"),
    (
        b'{"instances": [{"x": 1}, {"y": 1}]}',
        "application/json",
        400,
        "instance 1 has other inputs",
    ),
    (b'{"inputs": 1, "signature_name": "no"}', "application/json", 400, "no signature 'no'"),
    (b'{"inputs": 1, "signature_name": 1}', "application/json", 400, "not a text"),
    (b'{"inputs": [[99999999999999999999999, 1, 2]]}', "application/json", 400, "64 bits"),
    (npy(X[:, :2]), "application/x-npy", 400, "needs float32[any, 3], given is float32[2, 2]"),
    (npy(X > 0), "application/x-npy", 400, "needs float32[any, 3], given is bool[2, 3]"),
    (OBJECTS.getvalue(), "application/x-npy", 400, "objects and texts never"),
    (npy(np.array(["a"])), "application/x-npy", 400, "objects and texts never"),
    (npy(X)[:-1], "application/x-npy", 400, "which is not the 23 bytes"),
    (npy(X).replace(b"(2, 3)", b"(9, 9)"), "application/x-npy", 400, "which is not the 24 bytes"),
    (b"\x93NUMPY\x09\x00", "application/x-npy", 400, "version (9, 0)"),
    (b"no npy", "application/x-npy", 400, "no npy"),
    (b"no zip", "application/x-npz", 400, "no npz"),
    (npz(y=X), "application/x-npz", 400, "given: 'y'"),
    (BOMB.getvalue(), "application/x-npz", 413, "unpacks to more than"),
    (b"x=1", "application/x-www-form-urlencoded", 400, "JSON"),
    (b"x=1", "multipart/form-data", 415, "Content-Type must be one of"),
    (b"{}", "text/plain", 415, "'text/plain'"),
]


@pytest.mark.parametrize(("body", "kind", "status", "text"), REFUSED, ids=lambda x: str(x)[:25])
def test_a_body_that_does_not_fit_is_refused_in_words(body, kind, status, text, one):
    found, answer = one.post(body, kind)
    assert found == status, answer
    assert text in json.dumps(answer, ensure_ascii=False)


def test_a_body_of_curl_without_a_type_is_json(one):
    for kind in ("application/x-www-form-urlencoded", "application/json; charset=utf-8"):
        status, answer = one.post(b'{"instances": [[1, 2, 3]]}', kind)
        assert (status, list(answer)) == (200, ["predictions"])


@pytest.mark.parametrize("origin", ["http://elsewhere.org", "null", "http://localhost:1"])
def test_pages_of_other_servers_may_not_ask(one, origin):
    status, answer = one.post({"instances": [[1, 2, 3]]}, Origin=origin)
    assert (status, "pages of other servers may not ask" in answer["error"]) == (403, True)
    host = f"localhost:{one.server.server_port}"
    status, _ = one.post({"instances": [[1, 2, 3]]}, Origin=f"http://{host}", Host=host)
    assert status == 200


def test_integers_are_checked(two):
    with Running(two) as running:
        status, answer = running.post({"inputs": {"a": [1.5], "b": [1]}})
        assert (status, "needs int32[any], given is float64[1]" in answer["error"]) == (400, True)
        status, answer = running.post({"inputs": {"a": [1 << 40], "b": [1]}})
        assert (status, f"from {1 << 40} to {1 << 40}" in answer["error"]) == (400, True)
        status, answer = running.post({"instances": [1, 2]})
        assert (status, "takes 2 inputs, a, b" in answer["error"]) == (400, True)
        status, answer = running.post({"inputs": {"a": [1, 2, 3], "b": [1, 2]}})
        assert (status, "can't compute with these values" in answer["error"]) == (400, True)


def test_a_result_that_json_has_no_form_for_is_given_as_npz_alone(two):
    request = {"inputs": {"a": [1], "b": [0.0]}}
    with Running(two) as running:
        status, answer = running.post(request)
        assert (status, "NaN, infinity" in answer["error"]) == (400, True)
        status, answer = running.post(request, Accept="application/x-npz")
        assert (status, np.load(io.BytesIO(answer))["log"].tolist()) == (200, [-np.inf])


PREDICT = b"POST /v1/models/double:predict HTTP/1.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status", "text"),
    [
        (PREDICT + b"\r\n", b"411", b"no Content-Length"),
        (PREDICT + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411", b"in chunks"),
        (PREDICT + b"Content-Length: 99999999999999999999\r\n\r\n", b"413", b"are the most"),
        (PREDICT + b"Content-Length: 1000000000\r\n\r\n", b"413", b"67108864 are the most"),
        (PREDICT + b"Content-Length: -5\r\n\r\n", b"400", b"not a number"),
        (PREDICT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400", b"'1, 2'"),
        (PREDICT + b"Content-Length: \xb2\r\n\r\n", b"400", b"not a number"),
        (b"GET /v1/models/other HTTP/1.1\r\n\r\n", b"404", b"/v1/models/double:predict"),
        (b"GET /\x1b[31m HTTP/1.1\r\n\r\n", b"404", b"there is no"),
        (b"GET //[ HTTP/1.1\r\n\r\n", b"404", b"there is no"),
        (b"HEAD /v1/models/%64ouble/versions/1?a=b HTTP/1.1\r\n\r\n", b"200", b"json"),
        (b"GET /v1/models/double/versions/2 HTTP/1.1\r\n\r\n", b"404", b"there is no"),
        (b"POST /no HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"404", b"there is no"),
        (b"GET /v1/models/double:predict HTTP/1.1\r\n\r\n", b"405", b"Allow: POST"),
        (b"POST /v1/models/double HTTP/1.1\r\n\r\n", b"405", b"Allow: GET, HEAD"),
        (b"DELETE / HTTP/1.1\r\n\r\n", b"405", b"Allow: GET, HEAD, POST"),
        (b"OPTIONS /v1/models/double:predict HTTP/1.1\r\n\r\n", b"405", b"error"),
        (b"BREW / HTTP/1.1\r\n\r\n", b"501", b"error"),
        (b"nonsense\r\n\r\n", b"400", b"error"),
        (b"GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", b"403", b"'evil.example'"),
        (b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", b"400", b"Host"),
        (b"HEAD / HTTP/1.1\r\nHost: localhost:80\r\n\r\n", b"200", b"Content-Length"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000, b"431", b"error"),
        (b"GET /" + b"a" * 70_000, b"414", b"error"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_a_request_that_makes_no_sense_is_refused_by_its_status(request_bytes, status, text, one):
    reply = one.raw(request_bytes)
    assert reply.split(b" ", 2)[1] == status, reply
    assert text in reply
    assert b"Traceback" not in reply


def test_limits_are_those_that_were_given(double):
    with Running(double, max_bytes=10) as running:
        status, answer = running.post({"instances": X.tolist()})
        assert (status, "10 are the most" in answer["error"]) == (413, True)
    with pytest.raises(ValueError, match="max_bytes must be above 0, it is 0"):
        ModelServer(double, port=0, max_bytes=0)


def test_a_client_that_hangs_up_leaves_the_server_as_it_was(one, capfd):
    for data in (b"", b"POST", PREDICT, PREDICT + b"Content-Length: 100\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", one.server.server_port)) as line:
            line.sendall(data)
    assert one.post({"inputs": X.tolist()})[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_client_that_takes_too_long_is_told_and_let_go(double):
    with Running(double, timeout=0.05) as running:
        with socket.create_connection(("127.0.0.1", running.server.server_port)) as line:
            line.sendall(PREDICT + b"Content-Length: 100\r\n\r\n{")
            reply = b""
            while part := line.recv(65536):
                reply += part
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"1 of 100 bytes came within 0.05 seconds" in reply
        with socket.create_connection(("127.0.0.1", running.server.server_port)) as line:
            assert line.recv(65536) == b""  # nothing was asked for


def test_a_client_that_sends_byte_by_byte_is_let_go(double):
    with Running(double, timeout=0.2) as running:
        with socket.create_connection(("127.0.0.1", running.server.server_port)) as line:
            line.settimeout(0.02)
            line.sendall(b"GET / HTTP/1.1\r\nA: ")
            for _ in range(1000):
                try:
                    line.sendall(b"a")
                    answer = line.recv(100)
                except TimeoutError:
                    continue
                except OSError:
                    break
                assert answer == b""
                break
            else:
                pytest.fail("the connection is still there")


class Stuck:
    """A signature that waits until it is let go."""

    structured_input_signature = ((), {})
    structured_outputs = types.MappingProxyType({})

    def __init__(self):
        self.gone, self.started = threading.Event(), threading.Event()

    def __call__(self):
        self.started.set()
        self.gone.wait(60)
        return {}


def test_a_model_that_takes_too_long_is_504_and_one_that_is_busy_503():
    stuck = Stuck()
    with Running(Servable("stuck", {"serving_default": stuck}), timeout=0.1) as running:
        status, answer = running.post({"inputs": {}})
        assert (status, "did not finish within 0.1 seconds" in answer["error"]) == (504, True)
        assert stuck.started.is_set()
        status, answer = running.post({"inputs": {}})
        assert (status, "was busy with other requests" in answer["error"]) == (503, True)
        stuck.gone.set()


class Endless(Stuck):
    """A signature whose first call goes on and on, as a loop of a model may."""

    def __call__(self):
        first = not self.started.is_set()
        self.started.set()
        while first:
            pass
        return {}


def test_what_takes_too_long_is_stopped_and_the_next_request_is_answered():
    with Running(Servable("endless", {"serving_default": Endless()}), timeout=0.2) as running:
        assert running.post({"inputs": {}})[0] == 504
        running.server.seconds = 60
        assert running.post({"inputs": {}})[0] == 200


def test_a_loop_of_a_graph_is_stopped(tmp_path):
    @tk.function(input_signature=[tk.TensorSpec([], "int32")])
    def counted(n):
        return {"k": tk.while_loop(lambda k: k < n, lambda k: (k + 1,), (tk.constant(0),))[0]}

    tk.saved_graph.save(counted, tmp_path / "counted.h5")
    with Running(Servable.read(tmp_path / "counted.h5"), timeout=0.5) as running:
        assert running.post({"inputs": 2**31 - 1})[0] == 504
        running.server.seconds = 60
        assert running.post({"inputs": 7})[1] == {"outputs": 7}


def test_an_exception_in_the_last_moment_stops_no_other_task():
    """Each task ends about when it is stopped; the one after it has its own result."""
    worker = ModelWorker()
    outcomes = Counter()
    for number in range(300):
        try:
            worker.compute(sum, (range(20_000),), 0.0001 * (number % 5))
            outcomes["ended"] += 1
        except (UnfinishedError, BusyError) as error:
            outcomes[type(error).__name__] += 1
        assert worker.compute(lambda n: n, (number,), 60) == number
    assert outcomes["ended"] < 300
    worker.close()


def test_more_connections_than_there_is_room_for_are_turned_away(double):
    with Running(double, max_connections=1) as running:
        client = http.client.HTTPConnection("127.0.0.1", running.server.server_port, timeout=60)
        client.request("GET", "/v1/models/double")
        client.getresponse().read()  # the connection stays open
        reply, content = running.ask("GET", "/v1/models/double")
        assert (reply.status, json.loads(content)["error"]) == (
            503,
            "there are too many connections now",
        )
        client.close()


# ---------------------------------------------------------------------- the command


def test_what_is_no_model_is_refused(tmp_path, capsys):
    (tmp_path / "a.h5").write_text("text")
    assert main(["serve", str(tmp_path / "a.h5")]) == 1
    assert "is no saved graph (HDF5)" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "none")]) == 1
    assert "there is no file or folder" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "a.h5"), "--port", "99999"]) == 1
    assert "ports are 0 to 65535" in capsys.readouterr().err


def test_the_command_says_where_it_serves(double, folder, capsys, monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelServer, "serve_forever", stop)
    assert main(["serve", str(folder / "double.h5"), "--port", "0", "--name", "a b"]) == 0
    assert "/v1/models/a%20b:predict" in capsys.readouterr().out
