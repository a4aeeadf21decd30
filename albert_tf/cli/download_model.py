# SPDX-License-Identifier: Apache-2.0
r"""Downloads a published model into a directory that all commands read.

python download_model.py base
python download_model.py albert/albert-base-v2

base, large, xlarge and xxlarge are archives of the authors of ALBERT, in version 2; base-v1 and
base-zh are version 1 and the Chinese model. A name with a slash is one of the Hugging Face Hub. A
download that was interrupted goes on where it was. No other command downloads anything. Once the
project is installed, `albert-download` is the same command.
"""

import base64
import contextlib
import glob
import hashlib
import http.client
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zlib
from typing import NamedTuple

import albert_tf
from albert_tf import options, progress
from albert_tf.cli import launch
from albert_tf.errors import UserError, as_called
from albert_tf.models import released

_SECONDS = 60  # without an answer
_ATTEMPTS = 4  # each goes on where the last one ended
_BLOCK = 1 << 18


class Remote(NamedTuple):
    """What a server says of a file.

    Attributes:
        size: int, bytes; None if unknown.
        version: str, another one if the file changes; "" if unknown.
        checksum: (str, bytes), the name of an algorithm in hashlib and the digest; None if unknown.
    """

    size: int | None
    version: str
    checksum: tuple | None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to http; `linked` is the Hub's checksum of a file."""

    linked = ""

    def redirect_request(self, request, file, code, message, headers, address):
        """Makes the request to the other server, which no longer knows the checksum."""
        self.linked = headers.get("X-Linked-ETag") or self.linked
        if request.full_url.startswith("https:") and not address.startswith("https:"):
            raise UserError(f"{request.full_url} leads to {address}, which is not encrypted")
        return super().redirect_request(request, file, code, message, headers, address)


def ask(url, start=0):
    """Asks for a file.

    Args:
        url: str.
        start: int, the first byte that is wanted.

    Returns:
        The answer to read from, and a Remote. The answer has all of the file if its status is 200.
    """
    # Bytes as they are, so that sizes and checksums fit.
    headers = {"User-Agent": f"albert_tf/{albert_tf.__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    redirects = _Redirects()
    request = urllib.request.Request(url, headers=headers)
    answer = urllib.request.build_opener(redirects).open(request, timeout=_SECONDS)
    said = answer.headers
    part = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", said.get("Content-Range", ""))
    if answer.status == 206 and (not part or int(part[1]) != start):
        answer.close()
        raise UserError(f"{url}: asked for the bytes from {start} on, the server sent others")
    size = part[2] if part else said.get("Content-Length", "")
    checksum = None
    md5 = re.search(r"md5=([\w+/=]+)", ",".join(said.get_all("x-goog-hash", ())))
    sha256 = re.search(r"\b[0-9a-f]{64}\b", redirects.linked or said.get("X-Linked-ETag", ""))
    if md5:
        checksum = "md5", base64.b64decode(md5[1])
    elif sha256:
        checksum = "sha256", bytes.fromhex(sha256[0])
    version = said.get("ETag", "") or said.get("Last-Modified", "")
    return answer, Remote(int(size) if size.isdecimal() else None, version, checksum)


def fetch(url, path):
    """Downloads a file, and checks its size and, if the server tells one, its checksum.

    Args:
        url: str.
        path: str, the file to write. While it is incomplete it has another name, which begins with
            a dot and ends with .part.

    Raises:
        UserError: it cannot be downloaded, or is damaged. What was received of it stays, unless it
            is damaged, and the next call goes on there.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    for _ in range(_ATTEMPTS):
        answer, remote = ask(url)
        # Another file at the same address goes on in another part.
        key = hashlib.sha256(repr((url, remote)).encode()).hexdigest()[:12]
        part = os.path.join(folder, f".{name}.{key}.part")
        start = os.path.getsize(part) if os.path.exists(part) else 0
        if start and start == remote.size:
            answer.close()
        else:
            if start and remote.version:
                answer.close()
                answer, _ = ask(url, start)
            _receive(answer, part, remote, name)
        size = os.path.getsize(part)
        if remote.size is None or size >= remote.size:
            break
    if remote.size not in (None, size):
        if size > remote.size:
            os.remove(part)
        raise UserError(
            f"{url}: {size:,} of {remote.size:,} bytes were received. Type the command again"
        )
    if remote.checksum:
        algorithm, wanted = remote.checksum
        with open(part, "rb") as file:
            found = hashlib.file_digest(file, algorithm).digest()
        if found != wanted:
            os.remove(part)
            raise UserError(
                f"{url} is damaged: {algorithm} is {found.hex()}, not {wanted.hex()}. Type the "
                "command again"
            )
    os.replace(part, path)
    for left in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.*.part")):
        os.remove(left)


def _receive(answer, part, remote, name):
    """Appends an answer to a part, or replaces the part if the answer has all of the file."""
    mode = "ab" if answer.status == 206 else "wb"
    with (
        answer,
        open(part, mode) as file,
        progress.bar(name, remote.size, "B", initial=file.tell()) as bar,
        # A connection that ends too early is an error, or looks like the end of the file.
        contextlib.suppress(http.client.IncompleteRead, ConnectionError, TimeoutError),
    ):
        while block := answer.read(_BLOCK):
            file.write(block)
            bar.update(len(block))


def fetch_all(model, address, folder):
    """Downloads the files of a model that a folder lacks.

    Args:
        model: released.Released.
        address: str, of the site.
        folder: str, made if necessary.

    Returns:
        list of str, the paths of all its files, without extras that the site lacks.

    Raises:
        UserError: a file cannot be downloaded.
    """
    paths = []
    for file in (*model.files, *model.extras):
        url, path = f"{address.rstrip('/')}/{file}", os.path.join(folder, os.path.basename(file))
        try:
            if not os.path.exists(path):
                fetch(url, path)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404 and file in model.extras:
                continue
            raise UserError(f"{url}: the server says {error.code} {error.reason}") from error
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
            reason = getattr(error, "reason", error)
            raise UserError(f"{url}: {reason}. Check the network, or give --address") from error
        paths.append(path)
    return paths


def unpack(path, folder):
    """Unpacks an archive of one directory into a folder, without that directory's name.

    Args:
        path: str, a .tar.gz.
        folder: str, an empty directory.

    Raises:
        UserError: the archive is damaged, or holds links or paths that lead out of it.
    """

    def in_folder(member, folder):
        member = tarfile.data_filter(member, folder)
        if not (member.isfile() or member.isdir()):
            raise UserError(f"{path} holds {member.name}, which is no file: it is not unpacked")
        rest = member.name.removeprefix("./").partition("/")[2]
        return member.replace(name=rest, deep=False) if rest else None

    try:
        with tarfile.open(path, "r:gz") as archive:
            archive.extractall(folder, filter=in_folder)
    except tarfile.FilterError as error:
        raise UserError(f"{path}: {error}: it is not unpacked") from error
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{path} cannot be unpacked: {error}. Download it again") from error


def main(given):
    """Downloads the files of a model, and gives its directory its name when they are complete."""
    model = released.find(given.model or "")
    if model is None:
        raise UserError(
            f"--model={given.model or ''}: give {released.names()}, or a name of the Hugging Face "
            "Hub like albert/albert-base-v2"
        )
    address = given.address or model.address
    if urllib.parse.urlsplit(address).scheme not in ("https", "http"):
        raise UserError(f"--address={address}: must begin with https:// or http://")
    directory = (given.output_dir or model.directory).rstrip("/")
    if "://" in directory:
        raise UserError(f"--output_dir={directory}: give a directory of this machine")

    from albert_tf import files
    from albert_tf.checkpoints import readers, run_directory, source

    if os.path.isdir(directory) and os.listdir(directory):
        try:
            found = run_directory.find(directory)
        except UserError as error:
            raise UserError(f"--output_dir={directory} is not empty: give a new one") from error
        print(f"{found} is there already. Delete {directory}, or give another --output_dir.")
        return
    files.check_writable(os.path.dirname(directory) or ".", "output_dir")

    partial = f"{directory}.download"  # kept until all is complete
    paths = fetch_all(model, address, partial)
    with files.replacing_directory(directory) as folder:
        for path in paths:
            if path.endswith(".tar.gz"):
                try:
                    unpack(path, folder)
                except UserError:
                    os.remove(path)  # the next command downloads it again
                    raise
            else:
                os.replace(path, os.path.join(folder, os.path.basename(path)))
        found = source.find(folder)
        found.read_config()
        readers.open_reader(found.checkpoint)
    shutil.rmtree(partial)
    size = sum(entry.stat().st_size for entry in os.scandir(directory))
    print(f"{directory}: {len(os.listdir(directory))} files, {size / 1e6:,.1f} MB")
    print(as_called(f'Try it: python predict.py --model={directory} --fill_mask="A [MASK]."'))


run = launch.command(main, options.Download, word="model")  # albert-download
