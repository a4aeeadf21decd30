# SPDX-License-Identifier: Apache-2.0
"""Files are recognised by what they contain: compression, archives, encodings."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from albert_tf.corpus import text_files, unpacking
from tests.errors import refuses
from tests.text import languages

LINES = "one\nhélas 漢字\n\nthree\n" * 5000


def zstd(content):
    module = pytest.importorskip("backports.zstd", reason="needs the extra zstd")
    return module.compress(content)


def old_lzma(content):
    return lzma.compress(content, format=lzma.FORMAT_ALONE)


def tar(content, form=tarfile.PAX_FORMAT):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def old_tar(content):
    """Without the mark `ustar`, as tar wrote before 1988."""
    header = bytearray(tar(content, tarfile.USTAR_FORMAT)[:512])
    header[257:] = bytes(512 - 257)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content + bytes(-len(content) % 512)


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", content)
    return file.getvalue()


def read(path, content):
    path.write_bytes(content)
    return b"".join(unpacking.blocks(str(path)))


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])  # the name says nothing
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, old_lzma, zstd])
def test_compressed_files(tmp_path, pack, name):
    path, packed = tmp_path / name, pack(LINES.encode())
    assert read(path, packed) == LINES.encode()
    assert read(path, packed * 2) == LINES.encode() * 2
    assert text_files.total_size([str(path)]) is None
    with refuses(f"{name} ... unpacked"):
        read(path, packed[: len(packed) // 2])
    if pack is not old_lzma:  # which has no checksum
        middle = len(packed) // 2
        with refuses(f"{name} ... unpacked"):
            read(path, packed[:middle] + bytes(20) + packed[middle + 20 :])


def test_names_of_compressed_files_that_are_plain(tmp_path):
    assert read(tmp_path / "a.txt.gz", LINES.encode()) == LINES.encode()
    assert text_files.total_size([str(tmp_path / "a.txt.gz")]) == len(LINES.encode())


def encoded(name, end):
    text = {"latin-1": "déjà vu", "koi8-r": "мой ёж ест"}.get(name, "漢字文章中文" * 20) + end
    return (text * 20).encode(name)


BAD_LINE = "line 1 ... UTF-8 ... convert"
REFUSED = [  # content, what is said of it
    *(
        (pack(archive(LINES.encode())), f"{kind} archive")
        for pack in (bytes, gzip.compress, bz2.compress, lzma.compress)
        for archive, kind in ((tar, "tar"), (old_tar, "tar"), (zipped, "ZIP"))
    ),
    *(
        (head + bytes(range(256)), kind)
        for head, kind in (
            (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
            (b"7z\xbc\xaf\x27\x1c\0\4", "7-Zip"),
            (b"Rar!\x1a\7\1\0", "RAR"),
            (b"070701" + b"%08X" % 12 * 13, "cpio"),
            (b"\xc7\x71\x01\x02", "cpio"),
            (b"PAR1\x15\4\x15", "Parquet"),
            (b"ARROW1\0\0\xff\xff", "Arrow"),
            (b"\x89HDF\r\n\x1a\n\0", "HDF5"),
            (b"SQLite format 3\0\x10", "SQLite"),
            (b"Obj\1\4\x16avro.schema", "Avro"),
            (b"ORC\n\x1b", "ORC"),
            (b"{\\rtf1\\ansi ", "RTF"),
            (b"%PDF-1.7\n%\xb5", "PDF"),
            (b">sp|P0|X OS=Homo sapiens\r\nIIKTLSEASTVL\r\nLDG", "FASTA ... line"),
            (b">chr1\nnnnnacgtNNNACGT\n", "FASTA ... line"),
            (b"@read0\nAGAAGGATATGN\n+\nF:F,FFFFF##F", "FASTQ ... line"),
            (b"WARC/1.0\r\nWARC-Type: conversion\r\n", "WARC"),
            (b"\x80\x04\x95\x10\0", "pickle"),
            (b"\x04\x22\x4d\x18\x64", "LZ4"),
            (b"\x1f\x9d\x90\x61", "compressed by compress"),
        )
    ),
    (lzma.compress(gzip.compress(LINES.encode())), "xz ... gzip"),
    (gzip.compress(gzip.compress(LINES.encode())), "gzip and gzip"),
    (gzip.compress(LINES.encode()) + b"garbage", "unpacked"),
    *(
        (content, "control characters ... not plain text")
        for content in (np.arange(1000).tobytes(), bytes(1000), bytes(range(32)) * 9)
    ),
    *(
        (encoded(name, end), BAD_LINE)
        for name in ("latin-1", "shift_jis", "gb18030", "big5", "koi8-r")
        for end in ("\n", "\0.\n")
    ),
    ("café au lait\n".encode("latin-1"), BAD_LINE),
    ("漢字の文章\n".encode("shift_jis"), BAD_LINE),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_text_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "a.txt").write_bytes(content)
    with refuses(f"a.txt ... {message}"):
        for chunk in text_files.chunks([str(tmp_path / "a.txt")], text_files.Format()):
            text_files.sentences(chunk)


@pytest.mark.parametrize(
    "line",
    ["BZhang came", "PAR1 is a gene", "7z", "Rar! he said", "] [", "qǐng wèn", "ORC\nan orc",
     ">so\nYes\n", ">Hello\nABSOLUTELY, YES\n", "@bob\nAAAAAAAARGH\n+1", ">>>print(1)\n1\n"],
)  # fmt: skip
def test_text_that_begins_like_another_kind(tmp_path, line):
    assert read(tmp_path / "a.txt", line.encode()) == line.encode()


def test_zstandard_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with refuses("pip install 'albert_tf[zstd]'"):
        read(tmp_path / "a.txt", b"\x28\xb5\x2f\xfd" + bytes(20))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_utf16_and_utf32(tmp_path, monkeypatch, encoding, pack):
    content = ("\ufeff" + LINES + "\U0001f600").encode(encoding)
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 7)  # characters go on in the next block
    assert read(tmp_path / "a.txt", pack(content)).decode() == LINES + "\U0001f600"
    with refuses(f"a.txt ... {encoding[:6].upper()}"):
        read(tmp_path / "a.txt", pack(content[:-1]))


def test_half_a_character_of_utf16_is_a_bad_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n\ud83d\nthree".encode("utf-16-le", "surrogatepass"))
    form = text_files.Format(on_decode_error="skip")
    first, second = map(text_files.sentences, text_files.chunks([str(path)], form))
    assert (first, second) == ((["one"], {"lines_skipped": [2]}), (["three"], {}))
    with refuses("a.txt, line 2 ... UTF-8"):
        list(map(text_files.sentences, text_files.chunks([str(path)], text_files.Format())))


@pytest.mark.parametrize(
    "text", [LINES, *map(languages.TEXTS.get, ("russian", "greek", "arabic", "chinese"))]
)
@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark(tmp_path, name, text):
    assert read(tmp_path / "a.txt", text.encode(name)).decode() == text


@pytest.mark.parametrize(
    "text", ["one\0two\nthree four\n" * 50, "\x1b[1mbold\x1b[0m\n" * 50, "海\2钓\n" * 9]
)
def test_text_with_some_control_characters(tmp_path, text):
    assert read(tmp_path / "a.txt", text.encode()) == text.encode()


def test_a_file_that_is_not_there(tmp_path):
    with refuses("a.txt ... read"):
        unpacking.is_packed(str(tmp_path / "a.txt"))
    with refuses("a.txt ... read"):
        list(unpacking.blocks(str(tmp_path / "a.txt")))
