# SPDX-License-Identifier: Apache-2.0
"""Downloads of published models, from a local server that can do what servers do wrong."""

import base64
import hashlib
import http.server
import io
import os
import shutil
import tarfile
import threading
from pathlib import Path

import pytest

import albert_tf
from albert_tf import models
from albert_tf.cli import download_model
from albert_tf.models import released
from tests.errors import assert_error, assert_names, refuses

ARCHIVE = "albert_base_v2.tar.gz"


def archive_of(directory=None, name="albert_base", link=None):
    """Bytes of a .tar.gz: the files of a directory as the authors of ALBERT pack them.

    Or of a member without content: an empty file, or a link to a path.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        if directory:
            archive.add(directory, arcname=name)
        else:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
    return content.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`, path -> bytes; what it does wrong is in its other attributes."""

    daemon_threads = True
    cuts = ()  # numbers of bytes after which the next answers end
    takes_ranges = True
    is_shifted = False  # an answer to a range begins a byte later
    redirects = False  # as the Hub does, with the checksum in the first answer only
    headers = {}  # noqa: RUF012

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked = {}, []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_GET(self):
        server, path, start = self.server, self.path, 0
        if server.redirects and not path.startswith("/other"):
            self.send_response(302)
            self.send_header("Location", f"{server.address}/other{path}")
            if path in server.files:
                digest = hashlib.sha256(server.files[path]).hexdigest()
                self.send_header("X-Linked-ETag", f'"{digest}"')
            self.end_headers()
            return
        content = server.files.get(path.removeprefix("/other"))
        server.asked.append((path, self.headers.get("Range")))
        if content is None:
            self.send_error(404)
            return
        cut = len(content)
        if server.cuts:  # before the answer begins: the next question may follow at once
            cut, *server.cuts = server.cuts
        if server.takes_ranges and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            start += server.is_shifted
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[start : start + cut])
        self.close_connection = True


@pytest.fixture
def server():
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield serving
        serving.shutdown()


@pytest.fixture
def published(server, release, tmp_path, monkeypatch):
    """The server, with the archive of a model; the current directory is an empty one."""
    server.files[f"/{ARCHIVE}"] = archive_of(release)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return server


@pytest.fixture
def download(launched):
    """Runs the command; returns the process."""
    return lambda server, *words: launched(download_model, f"--address={server.address}", *words)


def serve_small(server, name, files):
    """Serves files of the packaged model as those of a name of the Hub."""
    model = Path(models.paths()["english-small"])
    for file in files:
        server.files[f"/{name}/resolve/main/{file}"] = (model / file).read_bytes()


def test_an_archive(published, release, download):
    done = download(published, "base")
    assert not done.returncode, done.stderr
    assert os.listdir() == ["albert_base"]
    for path in release.iterdir():
        assert Path("albert_base", path.name).read_bytes() == path.read_bytes()
    assert_names(done.stdout, "albert_base ... --model=albert_base")
    assert albert_tf.load("albert_base").fill_mask("a [MASK]")

    before = len(published.asked)
    done = download(published, "--model=albert-base-v2")  # the same model
    assert not done.returncode and len(published.asked) == before
    assert_names(done.stdout, "albert_base ... already")


@pytest.mark.parametrize("redirects", [False, True])
def test_files_of_the_hub(published, release, download, redirects):
    name, published.redirects = "someone/albert-x", redirects
    for file in released.HUB_FILES:
        published.files[f"/{name}/resolve/main/{file}"] = f"content of {file}".encode()
    done = download(published, name)
    assert_error(done, "config.json")  # it is none
    assert os.listdir() == ["albert-x.download"]
    serve_small(published, name, released.HUB_FILES + released.HUB_EXTRAS)
    done = download(published, name, "--output_dir=new/there")
    assert not done.returncode, done.stderr
    wanted = {*released.HUB_FILES, *released.HUB_EXTRAS}
    assert set(os.listdir("new/there")) == wanted and os.listdir("new") == ["there"]
    albert_tf.load("new/there")


def test_a_file_that_the_hub_may_lack(published, download):
    serve_small(published, "a/b", released.HUB_FILES)
    assert not download(published, "a/b").returncode
    assert set(os.listdir("b")) == {*released.HUB_FILES}
    del published.files["/a/b/resolve/main/spiece.model"]
    message = f"{published.address}/a/b/resolve/main/spiece.model ... 404"
    assert_error(download(published, "a/b", "--output_dir=c"), message)


# --- Answers that are cut or damaged --------------------------------------------------------------


def ranges(server):
    return [wanted for _, wanted in server.asked]


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_an_answer_that_is_cut_is_continued(published, download, takes_ranges):
    published.cuts, published.takes_ranges = [1000], takes_ranges
    assert not download(published, "base").returncode
    assert ranges(published) == [None, None, "bytes=1000-"]
    albert_tf.load("albert_base")


def test_the_next_command_continues(published, download):
    published.cuts = [1000, 0, 200, 0, 0, 0, 0]
    size = len(published.files[f"/{ARCHIVE}"])
    done = download(published, "base")
    assert_error(done, f"{ARCHIVE} ... {1200:,} ... {size:,} bytes")
    assert not os.path.exists("albert_base")
    published.asked.clear()
    published.cuts = ()
    assert not download(published, "base").returncode
    assert ranges(published) == [None, "bytes=1200-"]
    assert os.listdir() == ["albert_base"]


def test_a_part_of_another_file_is_not_continued(published, release, download):
    published.cuts = [1000, 0, 0, 0, 0, 0, 0]
    assert download(published, "base").returncode == 1
    (Path(shutil.copytree(release, "../other")) / "new.txt").write_text("new")
    published.files[f"/{ARCHIVE}"] = archive_of("../other")
    published.asked.clear()
    published.cuts = ()
    assert not download(published, "base").returncode
    assert ranges(published) == [None] and os.path.exists("albert_base/new.txt")


def test_another_part_than_the_one_that_was_asked_for(published, download):
    published.cuts, published.is_shifted = [1000], True
    assert_error(download(published, "base"), f"{ARCHIVE} ... 1000")


@pytest.mark.parametrize("header", ["x-goog-hash", "X-Linked-ETag"])
def test_checksums(published, download, header):
    content = published.files[f"/{ARCHIVE}"]

    def said(content):
        if header == "x-goog-hash":
            return f"crc32c=AAAAAA==,md5={base64.b64encode(hashlib.md5(content).digest()).decode()}"
        return f'"{hashlib.sha256(content).hexdigest()}"'

    published.headers = {header: said(b"other")}
    algorithm = "md5" if "goog" in header else "sha256"
    digest = hashlib.new(algorithm, content).hexdigest()
    assert_error(download(published, "base"), f"{ARCHIVE} ... {algorithm} ... {digest}")
    assert not [name for _, _, names in os.walk(".") for name in names]
    published.headers = {header: said(content)}
    assert not download(published, "base").returncode


@pytest.mark.parametrize(
    "content, parts",
    [
        (None, "albert_base_v2.tar.gz"),
        (b"no archive", "albert_base_v2.tar.gz"),
        (archive_of(name="albert_base/../../out"), "out"),
        (archive_of(name="../out"), "out"),
        (archive_of(name="albert_base/link", link="/etc"), "link"),
        (archive_of(name="albert_base/a/link", link="../../x"), "link"),
        (archive_of(name="albert_base/readme"), "checkpoint"),
    ],
    ids=["cut", "no archive", "out", "above", "link", "link above", "no checkpoint"],
)
def test_archives_that_are_refused(published, download, content, parts):
    published.files[f"/{ARCHIVE}"] = content or published.files[f"/{ARCHIVE}"][:-1000]
    assert_error(download(published, "base"), parts)
    assert not os.path.exists("albert_base") and not os.path.exists("../out")


def test_an_encrypted_address_leads_to_no_other():
    request = download_model.urllib.request.Request("https://a.b/c")
    with refuses("https://a.b/c ... http://a.b/c"):
        download_model._Redirects().redirect_request(request, None, 302, "", {}, "http://a.b/c")


# --- What is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words, parts",
    [
        ([], "--model= ... base ... albert/albert-base-v2"),
        (["huge"], "--model=huge ... xxlarge"),
        (["base", "large"], "base large"),
        (["base", "--address=/here"], "--address=/here"),
        (["base", "--address=http://127.0.0.1:1"], "http://127.0.0.1:1/albert_base_v2.tar.gz"),
        (["base", "--output_dir=/dev/null/x"], "--output_dir=/dev/null"),
    ],
)
def test_wrong_words(words, parts, launched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_error(launched(download_model, *words), parts)


def test_a_directory_of_something_else_stays(published, download):
    os.mkdir("albert_base")
    Path("albert_base/notes").touch()
    assert_error(download(published, "base"), "--output_dir=albert_base")
    assert os.listdir("albert_base") == ["notes"] and not published.asked


@pytest.mark.parametrize(
    "name, files, directory",
    [
        ("base", ("albert_base_v2.tar.gz",), "albert_base"),
        ("xxlarge-v1", ("albert_xxlarge_v1.tar.gz",), "albert_xxlarge_v1"),
        ("albert_large_zh", ("albert_large_zh.tar.gz",), "albert_large_zh"),
        ("small", None, None),
        ("../x", None, None),
        ("a/b/c", None, None),
    ],
)
def test_names(name, files, directory):
    found = released.find(name)
    assert (found and (found.files, found.directory)) == (files and (files, directory))


@pytest.mark.parametrize(
    "path, command",
    [
        ("albert/albert-base-v2", "download_model.py albert/albert-base-v2"),
        ("albert_large_v1", "download_model.py albert_large_v1"),
        ("base/", "download_model.py base"),
        ("output/run", "download_model.py base"),
        ("tests/albert-x", "download_model.py base"),  # there is such a directory
    ],
)
def test_an_unknown_name_names_the_command(path, command):
    with refuses(path, f"{command} downloads"):
        albert_tf.load(path)
