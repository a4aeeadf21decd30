# SPDX-License-Identifier: Apache-2.0
"""Reads files of text by what they contain: compressed or plain, in UTF-8, UTF-16 or UTF-32.

The first bytes of a file tell its kind, and not its name. A file that holds no text by itself, such
as an archive, is refused by the name of its kind.
"""

import bz2
import codecs
import contextlib
import gzip
import io
import itertools
import lzma
import re
import tarfile
import zlib

import tensorflow as tf

from albert_tf import errors, files
from albert_tf.errors import UserError

_BLOCK_BYTES = 1 << 18
_HEAD_BYTES = 1 << 14  # of some lines, which tell the encoding; a tar header has 512


def _open_zstd(file):
    zstd = errors.import_extra("backports.zstd", "a file compressed by Zstandard")
    # As dumps of Reddit are written (`zstd --long=31`); memory is taken as the file says.
    return zstd.open(file, options={zstd.DecompressionParameter.window_log_max: 31})


_PACKINGS = {  # kinds of compression -> how they begin, and a function that opens them
    "gzip": (rb"\x1f\x8b\x08", gzip.open),
    "bzip2": (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", bz2.open),
    "xz": (rb"\xfd7zXZ\0|\x5d\0\0", lzma.open),
    "Zstandard": (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", _open_zstd),
}
_OTHERS = {  # kinds that are refused -> how they begin
    "a ZIP archive or a document in one": rb"PK(\x03\x04|\x05\x06|\x07\x08)",
    "a 7-Zip archive": rb"7z\xbc\xaf\x27\x1c",
    "a RAR archive": rb"Rar!\x1a\x07",
    "an ar archive": rb"!<arch>\n",
    "a cpio archive": rb"07070[127][\da-fA-F]{50}|\xc7\x71",
    "a Parquet table": rb"PAR1[\x15\x19\x1c]",
    "an Arrow table": rb"ARROW1\0\0|\xff{4}(?s:.{4})\x10\0{3}",
    "an HDF5 file": rb"\x89HDF\r\n\x1a\n",
    "an SQLite database": rb"SQLite format 3\0",
    "an Avro table": rb"Obj\x01",
    "an ORC table": rb"ORC[\t\n\r]?[\x00-\x08\x0b\x0c\x0e-\x1f]",
    "a WARC archive of web pages": rb"WARC/\d",
    "a pickle of Python": rb"\x80[\x02-\x05]",
    "in FASTA or FASTQ (write one sequence per line, without the other lines)": (
        rb">[^>\s].*\n([A-Z][A-Z*]{9,}|[acgtunACGTUN]{10,})\r?(\n|\Z)|@\S.*\n[acgtunACGTUN.]{10,}\r?\n\+"
    ),
    "a document in RTF": rb"\{\\rtf\d",
    "a PDF document": rb"%PDF-\d\.\d",
    "a document of an office program": rb"\xd0\xcf\x11\xe0\xa1\xb1",
    "compressed by LZ4": rb"\x04\x22\x4d\x18",
    "compressed by Snappy": rb"\xff\x06\0\0sNaPpY",
    "compressed by lzip": rb"LZIP\x01",
    "compressed by compress": rb"\x1f[\x9d\xa0]",
}
_NO_TEXT = "not plain text: unpack it, or save its text as lines, in JSON or in CSV"


def is_packed(path):
    """Whether a file is compressed.

    Raises:
        UserError: the file cannot be read.
    """
    with _reading(path), tf.io.gfile.GFile(path, "rb") as file:
        return _packing(file.read(_HEAD_BYTES)) is not None


def blocks(path):
    """Yields the text of a file in UTF-8 without a byte order mark, unpacked if it is compressed.

    Args:
        path: str.

    Raises:
        UserError: the file cannot be read or unpacked, or is of a kind that holds no text.
    """
    with _reading(path), contextlib.ExitStack() as stack:
        file = stack.enter_context(tf.io.gfile.GFile(path, "rb"))
        head = file.read(_HEAD_BYTES)
        if packing := _packing(head):
            file.seek(0)
            _, open_ = _PACKINGS[packing]
            file = stack.enter_context(open_(file))
            head = file.read(_HEAD_BYTES)
            if inner := _packing(head):
                raise UserError(f"{path} is compressed by {packing} and {inner}: unpack it once")
        encoding = _encoding(path, head)
        starts = range(0, len(head), _BLOCK_BYTES)
        parts = itertools.chain(
            (head[start : start + _BLOCK_BYTES] for start in starts),
            iter(lambda: file.read(_BLOCK_BYTES), b""),
        )
        if encoding != "utf-8":
            parts = _as_utf8(path, parts, encoding)
        yield next(parts, b"").removeprefix(codecs.BOM_UTF8)
        yield from parts


def read(path):
    """The text of a file: bytes, as `blocks` yields them; errors are also as of `blocks`."""
    return b"".join(blocks(path))


def lines(path):
    """Yields the lines of a file, bytes with their line ends; arguments and errors as `blocks`."""
    for block in whole_lines(blocks(path)):
        yield from io.BytesIO(block)


def whole_lines(parts, check=None):
    """Yields text in blocks that end at a line end, except perhaps the last one.

    Args:
        parts: iterable of bytes.
        check: callable that gets the number of a line, from 1, and the parts of it that were read
            so far, a list of bytes; it may raise an error. None for no check.
    """
    held, line = [], 1
    for block in parts:
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*held, block[:end]])
            held, line = [], line + block.count(b"\n")
        held.append(block[end:])
        if check:
            check(line, held)
    if any(held):
        yield b"".join(held)


@contextlib.contextmanager
def _reading(path):
    """Raises UserError in place of the errors of reading and unpacking a file."""
    try:
        with files.reading(path):
            yield
    except UserError:
        raise
    except Exception as error:
        is_of_zstd = type(error).__name__ == "ZstdError"  # of a package that may be absent
        if is_of_zstd or isinstance(error, (OSError, EOFError, zlib.error, lzma.LZMAError)):
            raise UserError(f"{path} cannot be unpacked: {error}. Copy it again") from error
        raise


def _packing(head):
    """The compression of a file that begins so; None if it is not compressed."""
    return next((name for name, (begins, _) in _PACKINGS.items() if re.match(begins, head)), None)


def _encoding(path, head):
    """The encoding of text that begins so, as of `files.encoding_of`.

    Raises:
        UserError: it is of a kind that holds no text by itself.
    """
    files.check_no_pointer(path, head)
    for name, begins in _OTHERS.items():
        if re.match(begins, head):
            raise UserError(f"{path} is {name} and {_NO_TEXT}")
    with contextlib.suppress(tarfile.HeaderError):  # a header has a checksum
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        raise UserError(f"{path} is a tar archive and {_NO_TEXT}")
    encoding = files.encoding_of(head)
    if not encoding:
        raise UserError(f"{path} is full of control characters and {_NO_TEXT}")
    return encoding


def _as_utf8(path, parts, encoding):
    """Yields text in UTF-16 or UTF-32 as UTF-8; half characters become bytes that are not UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    try:
        for part in parts:
            yield decoder.decode(part).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not {encoding.upper()}: {error.reason}") from error
