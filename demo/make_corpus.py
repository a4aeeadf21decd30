# SPDX-License-Identifier: Apache-2.0
"""Make an English corpus from the docstrings of the installed Python packages.

This text is on every machine anyway. A docstring is a document, with a sentence in each line and an
empty line after it, as create_pretraining_data.py reads it. The packages are parsed,
never imported. The same packages give the same corpus. Nothing is downloaded.

With --labelled_dir, some of the documents are written as train.tsv and dev.tsv too, labelled with
the package that each is from: a small task for the fine-tuning of the demo.

    python -m demo.make_corpus --train_file=train.txt --heldout_file=heldout.txt
"""

import ast
import collections
import inspect
import multiprocessing
import os
import pathlib
import re
import sys
import sysconfig
import warnings
from typing import NamedTuple

from absl import app, flags

from albert_tf import files

_ROOTS = flags.DEFINE_list(
    "roots", None, "folders of Python packages; unset: the standard library and site-packages"
)
_TRAIN_FILE = flags.DEFINE_string("train_file", None, "text file of the training documents")
_HELDOUT_FILE = flags.DEFINE_string("heldout_file", None, "text file of the held-out documents")
_HELDOUT_EVERY = flags.DEFINE_integer(
    "heldout_every", 20, "hold out one of so many documents", lower_bound=2
)
_MIN_SENTENCES = flags.DEFINE_integer(
    "min_sentences", 2, "documents with fewer new sentences are dropped", lower_bound=1
)
_LABELLED_DIR = flags.DEFINE_string(
    "labelled_dir", None, "folder for train.tsv and dev.tsv: documents labelled with their package"
)

# Of the labelled documents: packages that have most, and how many of each. Few are enough to see
# what pre-training brings, and take half a minute.
_LABELS = 4
_MOST_PER_LABEL = {"train": 500, "dev": 50}

# Docstrings of tests are poor text, and vendored copies repeat those of other packages.
_SKIPPED_FOLDERS = frozenset({"test", "tests", "_vendor", "__pycache__"})

_PACKAGE_ROOTS = frozenset({"site-packages", "dist-packages"})

# Lines at the margin that are not prose. Indented lines (code, `Args:` tables, definitions) are
# dropped anyway.
_NOT_PROSE = re.compile(
    r"""
      [*+\-•]\s            # list item
    | \d+[.)]\s            # numbered item
    | \.\.(\s|$)           # reStructuredText directive or footnote
    | [:@]\w+              # :param x:, @tag
    | [=\-~^"'#*+]{3,}     # underline, rule
    | \#                   # Markdown heading, comment
    | [|+]                 # table
    | ```                  # fence
    | \w+\s:\s             # `name : type`
    | [\w*]+\s*\([^)]*\)\s*:   # `name (type): meaning`
    """,
    re.VERBOSE,
)
_MARKUP = (
    (re.compile(r":[\w:]+:`~?(?:[^`<]*?\.)?([^`.<]+)(?:\s<[^>`]*>)?`"), r"\1"),  # :class:`~a.b.C`
    (re.compile(r"`([^`<]+?)\s*<[^>`]*>`_+"), r"\1"),  # `text <target>`_
    (re.compile(r"!?\[([^\]]+)\]\([^)]*\)"), r"\1"),  # [text](target)
    (re.compile(r"\s*\[\w+\]_"), ""),  # [1]_
    (re.compile(r"`+([^`]+)`+_*"), r"\1"),  # `code`, ``code``
    (re.compile(r"(\*{1,2})(\w[^*]*?)\1"), r"\2"),  # *emphasis*
)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bal\.)(?<!\b[A-Z]\.)"
    r"\s+(?=[\"'(]?[A-Z])"
)
_SENTENCE = re.compile(r"[\"'(]?[A-Z].*[.!?][\"')]*$")
_CODE = re.compile(r"[=<>{}\[\]|\\@#$^~*`]|://|::|\w\(|\w\.\w+\.\w|[^\x00-\x7f]{3}")
_MIN_WORDS = 4


class Document(NamedTuple):
    """The sentences of a docstring, and the package it is from."""

    package: str
    sentences: list


def docstrings(source):
    """Yields the docstrings of a module, in the order of its text; SyntaxError if it is not one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's strings
        todo = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield inspect.cleandoc(text)
        # Only statements are walked: expressions hold no docstrings, and there are many of them.
        todo.extend(
            child for child in reversed(getattr(node, "body", ())) if isinstance(child, ast.stmt)
        )


def paragraphs(docstring, counts):
    """Yields the paragraphs of prose of one docstring, each as one line without markup."""
    lines, fenced, in_doctest = [], False, False
    for line in [*docstring.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        in_doctest = line.startswith(">>>") or (in_doctest and bool(line.strip()))
        empty = not line.strip()
        if not (empty or fenced or in_doctest or line[0].isspace() or _NOT_PROSE.match(line)):
            lines.append(line.strip())
            continue
        counts["lines dropped: code, tables, lists, underlines"] += not empty
        if lines:
            text = " ".join(lines)
            for pattern, replacement in _MARKUP:
                text = pattern.sub(replacement, text)
            yield text
            lines = []


def sentences(docstring, counts):
    """Returns the English sentences of a docstring; what is dropped is added to `counts`."""
    kept = []
    for paragraph in paragraphs(docstring, counts):
        for sentence in _SENTENCE_END.split(paragraph):
            if _CODE.search(sentence):
                counts["sentences dropped: code or formulas"] += 1
            elif not _SENTENCE.match(sentence):
                counts["sentences dropped: a title, a fragment or a lead-in"] += 1
            elif len(sentence.split()) < _MIN_WORDS:
                counts[f"sentences dropped: fewer than {_MIN_WORDS} words"] += 1
            else:
                kept.append(" ".join(sentence.split()))
    return kept


def source_files(roots):
    """Returns (package, path) of the .py files under the folders, sorted.

    Tests and vendored copies are left out. A package is a folder or a module in one of `roots`.
    """
    paths = []
    for root in roots:
        if not os.path.isdir(root):
            raise ValueError(f"--roots: {root!r} is not a folder. Name folders of Python packages.")
        for folder, subfolders, names in os.walk(root):
            # The standard library's folder may hold a site-packages, which is another Python's.
            subfolders[:] = sorted(set(subfolders) - _SKIPPED_FOLDERS - _PACKAGE_ROOTS)
            top = os.path.relpath(folder, root).split(os.sep)[0]
            paths += [
                (name.removesuffix(".py") if top == "." else top, os.path.join(folder, name))
                for name in sorted(names)
                if name.endswith(".py") and not name.startswith("test_")
                and not name.endswith("_test.py")
            ]  # fmt: skip
    return paths


def file_documents(package_and_path):
    """Returns the documents of one source file, and what was counted."""
    package, path = package_and_path
    counts = collections.Counter({"files": 1})
    documents = []
    try:
        for docstring in docstrings(pathlib.Path(path).read_bytes()):
            counts["docstrings"] += 1
            found = sentences(docstring, counts)
            if found:
                documents.append(Document(package, found))
            else:
                counts["documents dropped: no sentence of prose"] += 1
    except (SyntaxError, ValueError, RecursionError):  # templates, Python 2, null bytes
        counts["files dropped: no Python 3"] += 1
    return documents, counts


def new_documents(documents, min_sentences, counts):
    """Yields the documents without the sentences that an earlier one has.

    APIs repeat their docstrings, whole and in part. Otherwise, held-out sentences would be in the
    training documents too.
    """
    seen = set()
    for document in documents:
        new = []
        for sentence in document.sentences:
            key = sentence.lower()
            if key not in seen:
                seen.add(key)
                new.append(sentence)
        counts["sentences dropped: repeated"] += len(document.sentences) - len(new)
        if not new:
            counts["documents dropped: duplicates"] += 1
        elif len(new) < min_sentences:
            counts[f"documents dropped: fewer than {min_sentences} new sentences"] += 1
        else:
            yield document._replace(sentences=new)


def collect(roots, min_sentences):
    """Reads all packages.

    Args:
        roots: folders of Python packages.
        min_sentences: int, documents with fewer new sentences are dropped.

    Returns:
        The documents and a Counter of what was read and dropped.
    """
    counts = collections.Counter()
    documents = []
    paths = source_files(roots)
    with multiprocessing.Pool() as pool:
        for found, found_counts in pool.imap(file_documents, paths, chunksize=64):
            documents += found
            counts += found_counts
    return list(new_documents(documents, min_sentences, counts)), counts


def split(documents, heldout_every):
    """Returns (training documents, held-out documents); every n-th document is held out."""
    heldout = documents[heldout_every - 1 :: heldout_every]
    training = [document for i, document in enumerate(documents) if (i + 1) % heldout_every]
    return training, heldout


def write(path, documents):
    """Writes documents to a text file, whole or not at all."""
    text = "\n\n".join("\n".join(document.sentences) for document in documents) + "\n"
    files.write_text(path, text)
    lines = sum(len(document.sentences) for document in documents)
    print(f"{path}: {len(documents)} documents, {lines} sentences, {len(text) / 1e6:.1f} MB")


def write_labelled(directory, splits):
    """Writes a TSV file for each split, with the documents of the packages that have most.

    Args:
        directory: str.
        splits: dict of str, "train" or "dev", to list of documents.
    """
    counts = collections.Counter(document.package for document in splits["train"])
    packages = [package for package, _ in counts.most_common(_LABELS)]
    for split, documents in splits.items():
        rows, shown = ["text\tpackage"], []
        for package in packages:
            texts = [" ".join(found) for name, found in documents if name == package]
            texts = texts[:: max(len(texts) // _MOST_PER_LABEL[split], 1)]  # of all its parts
            texts = texts[: _MOST_PER_LABEL[split]]
            rows += [f"{text}\t{package}" for text in texts]
            shown.append(f"{package} {len(texts)}")
        path = os.path.join(directory, f"{split}.tsv")
        files.write_text(path, "\n".join(rows) + "\n")
        print(f"{path}: {', '.join(shown)}")


def run(roots, train_file, heldout_file, heldout_every, min_sentences, labelled_dir=None):
    """Writes the files and prints what was read, kept and dropped."""
    documents, counts = collect(roots, min_sentences)
    for name, count in sorted(counts.items()):
        print(f"{count:8d} {name}")
    training, heldout = split(documents, heldout_every)
    if not heldout:
        raise ValueError(
            f"{len(documents)} documents found under {', '.join(roots)}: none left to hold out. "
            f"Name more packages in --roots or lower --heldout_every ({heldout_every})."
        )
    write(heldout_file, heldout)
    if labelled_dir:
        write_labelled(labelled_dir, {"train": training, "dev": heldout})
    write(train_file, training)  # last: with it, all are there


def main(_):
    """Reads the flags and runs."""
    paths = sysconfig.get_paths()
    try:
        run(
            _ROOTS.value or [paths["stdlib"], paths["purelib"]],
            _TRAIN_FILE.value,
            _HELDOUT_FILE.value,
            _HELDOUT_EVERY.value,
            _MIN_SENTENCES.value,
            _LABELLED_DIR.value,
        )
    except ValueError as error:
        sys.exit(f"make_corpus: {error}")


if __name__ == "__main__":
    flags.mark_flags_as_required(["train_file", "heldout_file"])
    app.run(main)
