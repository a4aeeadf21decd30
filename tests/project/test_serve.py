# SPDX-License-Identifier: Apache-2.0
"""The server of docs/serving.md: real requests to models of every task, good and bad ones."""

import http.client
import itertools
import json
import signal
import subprocess
import sys
import threading

import pytest

import albert_tf
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.model import heads
from demo import serve
from tests import ROOT, tiny
from tests.processes import run_python
from tests.training.clusters import free_addresses

pytestmark = pytest.mark.usefixtures("eagerly")

TEXT, PAIR = {"text": "a gorgeous film"}, {"text": "It rains.", "text_pair": "It is wet."}
ASKED = {"question": "Who built it?", "context": "Anna built it in 1902."}
RACE = {"article": "He went home.", "question": "He went _ .", "options": list("abcd")}
KINDS = {  # kind -> class of the model, its options, task and labels, an example, keys of an answer
    "one": (heads.ClassificationModel, {"num_outputs": 2}, ("sst-2", ("0", "1")), TEXT),
    "pair": (heads.ClassificationModel, {"num_outputs": 2}, ("rte", ("no", "yes")), PAIR),
    "score": (heads.ClassificationModel, {"num_outputs": 1}, ("sts-b", None), PAIR),
    "labels": (heads.ClassificationModel, {"num_outputs": 2}, ("multi_label", ("a", "b")), TEXT),
    "words": (heads.TokenClassificationModel, {"num_labels": 2}, ("ner", ("O", "B-X")), TEXT),
    "race": (heads.MultipleChoiceModel, {}, ("race", tuple("ABCD")), RACE),
    "squad-1": (heads.SquadV1Model, {}, None, ASKED),
    "squad-2": (heads.SquadV2Model, {}, None, ASKED),
}
KEYS = {"score": "predictions", "words": "scores", "squad-1": "probability"}
KEYS["squad-2"] = "no_answer_score"


def model_of(kind, folder):
    """The directory of a random model of a kind; one that is only pre-trained for None."""
    model, options, task, _ = KINDS.get(kind, (None, {}, None, None))
    tiny.write_release(folder, model, **options)
    if task:
        run_directory.RunDirectory(str(folder)).write_task(FinetunedTask(*task))
    return folder


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Sends a request to the server of a kind: ask(kind, path, content) -> (status, value)."""
    servers = {}

    def start(kind):
        service = serve.Service(albert_tf.load(model_of(kind, tmp_path_factory.mktemp("model"))))
        handler = type("Handler", (serve.Handler,), {"service": service})
        handler.log_message = lambda *_: None
        servers[kind] = serve.Server(("127.0.0.1", 0), handler)
        threading.Thread(target=servers[kind].serve_forever, daemon=True).start()

    def send(kind, path, content=None, method="POST", **headers):
        if kind not in servers:
            start(kind)
        connection = http.client.HTTPConnection(*servers[kind].server_address, timeout=60)
        content = content if isinstance(content, bytes | None) else json.dumps(content).encode()
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    yield send
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_task(kind, ask):
    example = KINDS[kind][3]
    status, health = ask(kind, "/health", method="GET")
    assert (status, health["status"], health["inputs"]) == (200, "ok", [*example])
    status, one = ask(kind, "/predict", example)
    assert status == 200 and KEYS.get(kind, "probabilities") in one
    status, two = ask(kind, "/predict", [example, example])
    assert status == 200 and [each.keys() for each in two] == [one.keys()] * 2
    assert ask(kind, "/predict", []) == (200, [])
    for name in example:
        status, said = ask(kind, "/predict", {key: example[key] for key in example if key != name})
        assert status == 400 and name in said["error"]
        status, said = ask(kind, "/predict", example | {name: 5})
        assert status == 400 and "5" in said["error"]


def test_embeddings(ask):
    status, found = ask(None, "/embed", [TEXT, {"text": ""}])
    assert status == 200
    assert [len(row["embedding"]) for row in found] == [tiny.WIDE["hidden_size"]] * 2
    assert ask(None, "/health", method="GET")[1]["task"] is None
    status, said = ask(None, "/predict", TEXT)
    assert status == 400 and "fine-tuned" in said["error"]


@pytest.mark.parametrize(
    ("path", "content", "status", "part"),
    [
        ("/predict", b"", 400, "JSON"),
        ("/predict", b"{", 400, "JSON"),
        ("/predict", b"\xff", 400, "JSON"),
        ("/predict", "a", 400, "object"),
        ("/predict", ["a"], 400, "dict"),
        ("/predict", {}, 400, "text"),
        ("/predict", {"text": " "}, 400, "text is empty"),
        ("/embed", {"text": None}, 400, "text"),
        ("/embed", ["a"], 400, "text"),
        ("/", {}, 404, "/predict"),
    ],
)
def test_wrong_requests(path, content, status, part, ask):
    found, said = ask("one", path, content)
    assert found == status and part in said["error"]
    assert ask("one", "/predict", TEXT)[0] == 200


def test_other_methods(ask):
    assert ask("one", "/predict", method="GET")[0] == 404
    status, said = ask("one", "/predict", TEXT, method="PUT")
    assert status == 501 and "PUT" in said["error"]


@pytest.mark.parametrize(("length", "status"), [("x", 411), (str(serve.LARGEST + 1), 413)])
def test_content_that_is_not_read(length, status, ask):
    assert ask("one", "/predict", b"", **{"Content-Length": length})[0] == status


def test_when_a_process_ends_the_others_end_too(tmp_path):
    code = f"""
import os, sys, time
from demo import serve

def work(server, path):
    try:
        os.mkdir(path)  # the first one ends
    except FileExistsError:
        time.sleep(100)

serve.work, sys.argv = work, ["serve", "--model={tmp_path}/one", "--port=0", "--workers=3"]
serve.main()
"""
    done = run_python("-c", code, timeout=60)  # the output is closed when all have ended
    assert (done.returncode, done.stdout) == (1, "") and "Traceback" not in done.stderr


@pytest.mark.long
def test_processes_share_a_port(tmp_path):
    port = free_addresses(1)[0].partition(":")[2]
    words = ["-m", "demo.serve", f"--model={model_of('one', tmp_path)}", f"--port={port}"]
    with subprocess.Popen(
        [sys.executable, *words, "--workers=2"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        lines = iter(server.stdout.readline, "")
        ready = itertools.islice((line for line in lines if "http://" in line), 2)
        assert len({line.split()[1] for line in ready}) == 2  # ids of processes
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/predict", json.dumps(TEXT))
        assert "probabilities" in json.loads(connection.getresponse().read())
        connection.close()
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0


def test_a_port_that_there_is_not(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["serve", "--model=none", "--port=70000"])
    with pytest.raises(SystemExit):
        serve.main()
    assert "--port=70000" in capsys.readouterr().err


@pytest.mark.long
def test_a_model_that_is_not_there():
    done = run_python("-m", "demo.serve", "--model=none", "--port=0")
    assert done.returncode == 1 and "serve: error: no checkpoint at none" in done.stderr
