# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server for a model of any task.

python -m demo.serve --model=output/sst-2 --port=8080 --workers=2

GET /health names the model and its inputs. POST /predict takes a JSON object with these inputs, or
a list of such objects, and answers with the predictions and their probabilities. POST /embed takes
objects with `text`, and answers with vectors; a model that is not fine-tuned has only these.
"""

import argparse
import contextlib
import http.server
import json
import os
import signal
import sys
import threading
import traceback

from albert_tf.errors import UserError, parse_json

LARGEST = 2**20  # bytes of a request


class Service:
    """Answers to requests, from one model.

    Args:
        loaded: Loaded.
    """

    def __init__(self, loaded):
        loaded.shows_progress = False
        self.loaded, self._lock = loaded, threading.Lock()
        self._functions = {"/predict": self._predict, "/embed": self._embed}

    def health(self):
        """What the server runs: dict."""
        loaded = self.loaded
        return {
            "status": "ok",
            "model": loaded.checkpoint,
            "task": loaded.task,
            "inputs": [n for n in loaded.inputs if n not in loaded.optional_inputs] or ["text"],
            "optional_inputs": list(loaded.optional_inputs),
        }

    def answer(self, path, content):
        """The status and the JSON value for the content (bytes) of a POST request."""
        if path not in self._functions:
            return 404, {"error": f"POST {path}: give {' or '.join(self._functions)}"}
        try:
            given = parse_json(content, "the request")
            examples = [given] if isinstance(given, dict) else given
            if not isinstance(examples, list):
                raise UserError("the request must be a JSON object, or a list of objects")
            with self._lock:
                found = self._functions[path](examples)
        except UserError as error:
            return 400, {"error": str(error)}
        except Exception:
            traceback.print_exc()
            return 500, {"error": "the server failed; its log says why"}
        return 200, found[0] if isinstance(given, dict) else found

    def _predict(self, examples):
        for example in filter(lambda example: isinstance(example, dict), examples):
            empty = [n for n, text in example.items() if isinstance(text, str) and not text.strip()]
            if empty:
                raise UserError(f"{empty[0]} is empty: give a text")
        return self.loaded.answers(examples)

    def _embed(self, examples):
        for example in examples:
            if not isinstance(example, dict) or not isinstance(example.get("text"), str):
                raise UserError(f"/embed takes objects with `text`. Received: {example!r:.80}")
        vectors = self.loaded.embed([example["text"] for example in examples])
        return [{"embedding": vector.tolist()} for vector in vectors]


class Handler(http.server.BaseHTTPRequestHandler):
    """Speaks HTTP for the Service of its class."""

    service: Service
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds for a slow client
    error_content_type, error_message_format = "application/json", '{"error": "%(message)s"}'

    def do_GET(self):
        """GET /health."""
        if self.path != "/health":
            return self.reply(404, {"error": f"GET {self.path}: give /health, or POST /predict"})
        return self.reply(200, self.service.health())

    def do_POST(self):
        """POST /predict and /embed."""
        length = self.headers.get("Content-Length") or ""
        if not length.isdecimal():
            return self.reply(411, {"error": "the request needs Content-Length"}, closes=True)
        if int(length) > LARGEST:
            message = f"{length} bytes: a request has at most {LARGEST}"
            return self.reply(413, {"error": message}, closes=True)
        return self.reply(*self.service.answer(self.path, self.rfile.read(int(length))))

    def reply(self, status, value, closes=False):
        """Sends a JSON value; `closes` the connection if the content of the request is not read."""
        content = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if closes:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


class Server(http.server.ThreadingHTTPServer):
    """Listens as soon as it is made, so several processes can share it."""

    request_queue_size = 128


def work(server, path):
    """Loads the model and serves it, in a process of its own."""
    import albert_tf  # here, since TensorFlow's threads do not survive a fork

    Handler.service = Service(albert_tf.load(path))
    example = {"text": "a", "options": ["a", "b"]}
    first = {name: example.get(name, "a") for name in Handler.service.health()["inputs"]}
    path = "/predict" if Handler.service.loaded.task else "/embed"
    Handler.service.answer(path, json.dumps(first).encode())  # the first answer is slow
    print(f"Process {os.getpid()} serves http://{server.server_name}:{server.server_port}")
    sys.stdout.flush()
    server.serve_forever()


def main():
    """Starts the processes; ends when one of them ends, or at SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="what albert_tf.load takes")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for all of the machine")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--workers", type=int, default=1, help="processes, each with the model")
    arguments = parser.parse_args()
    try:
        server, children = Server((arguments.host, arguments.port), Handler), []
    except (OSError, OverflowError) as error:
        parser.error(f"--host={arguments.host} --port={arguments.port}: {error}")
    for _ in range(arguments.workers):
        child = os.fork()
        if not child:
            try:
                work(server, arguments.model)
            except UserError as error:
                print(f"serve: error: {error}", file=sys.stderr)
            except KeyboardInterrupt:
                pass
            os._exit(1)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        ended, _ = os.wait()
        children.remove(ended)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)


if __name__ == "__main__":
    main()
