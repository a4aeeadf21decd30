# SPDX-License-Identifier: Apache-2.0
"""Token classification: CoNLL files, features by both kinds of vocabulary, metrics by hand."""

import collections
import itertools
import json
import math
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.publish import graph_inputs
from albert_tf.publish.graph_tokenization import GraphTokenizer
from albert_tf.records import schemas
from albert_tf.tasks import known, ner, tag_schemes, word_files
from albert_tf.tasks.base import TextInput
from albert_tf.tasks.word_files import Columns, find_labels
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.splits_and_results import Split
from tests import SIZES, tiny
from tests.errors import assert_names, names, refuses

VOCABULARIES = {
    "sentencepiece": {"spm_model_file": str(tiny.VOCABULARY)},
    "wordpiece": {"vocab_file": str(tiny.WORDPIECE)},
}
LABELS = ("O", "B-LOC", "B-PER", "I-LOC", "I-PER")
UNKNOWN = 1  # id in both vocabularies


@pytest.fixture(scope="module", params=VOCABULARIES)
def vocabulary(request):
    return VOCABULARIES[request.param]


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return FullTokenizer(**vocabulary)


@pytest.fixture
def written(tmp_path):
    """Writes a file: written(content) -> its path."""

    def write(content, name="train.conll"):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


def corpus_of(written, *sentences):
    """Sentences such as 'Mr./B-PER Smith/I-PER'."""
    blocks = ("\n".join(words.replace("/", "\t").split(" ")) for words in sentences)
    return word_files.read(written("\n\n".join(blocks) + "\n"))


def words_of(corpus):
    return [[word.text for word in sentence] for sentence in corpus]


# --- Files ---


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_sentences_words_and_labels(written, line_end, start, last):
    lines = ["-DOCSTART-(1) -X- O", "", "Mr. NNP B-PER", "Smith NNP I-PER", "\t", "\t ", ""]
    lines += ["in\tO", "New York\t_\tB-LOC", "-DOCSTART-\tO", "a\u2028b\u3000\tO", "c\u3000d O"]
    lines += [" New\u00a0York  NNP B-LOC ", "\u3000 O" + last]
    corpus = word_files.read(written(start + "\n".join(lines).replace("\n", line_end)))
    # Tabs end words, or spaces if a line holds no tab; line ends are those of ASCII alone.
    last_words = ["a\u2028b\u3000", "c\u3000d", "New\u00a0York", "\u3000"]
    assert words_of(corpus) == [["Mr.", "Smith"], ["in", "New York"], last_words]
    assert ner.true_labels(corpus) == [["B-PER", "I-PER"], ["O", "B-LOC"], ["O", "O", "B-LOC", "O"]]
    assert [word.line for word in corpus.words] == [3, 4, 8, 9, 11, 12, 13, 14]
    assert corpus.has_labels and len(corpus.lines) == 14


def test_a_test_file_without_labels(written):
    path = written("Mr.\nSmith\n\nin\t\nNew\u00a0York\n\u3000\n")
    corpus = word_files.read(path, LABELS, needs_labels=False)
    assert words_of(corpus) == [["Mr.", "Smith"], ["in", "New\u00a0York", "\u3000"]]
    assert not corpus.has_labels
    with refuses(f"{path}, line 1"):
        word_files.read(path, LABELS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "train.conll"),
        ("\n-DOCSTART- O\n\n", "train.conll"),
        (b"a O\n\nb\xff O\n", "line 3 ... UTF-8"),
        (b"a O\r\rb\xff O\r", "line 3 ... UTF-8"),
        ("a O\nb\n", "line 2"),
        ("a\nb O\n", "line 1"),
        ("a\tO\nb\t \n", "line 2"),
        ("a\tO\n\tO\n", "line 2"),
        ("a\tX\tO\t\nb\tO\n", "line 1 ... tab"),
        ("a,O\nb O\n", "line 1 ... .csv"),
        ("a O\nb PER\n", "line 2 ... 'PER' ... O ... B-LOC"),
        ("a O\nb B-\n", "line 2 ... 'B-' ... O ... B-LOC"),
        ("a O\nb B-DATE\n", "line 2 ... B-DATE ... O ... B-LOC"),
    ],
)
def test_an_error_names_file_and_line(written, content, message):
    path = written(content)
    with refuses(f"{path} ... {message}"):
        word_files.read(path, LABELS)


@pytest.mark.parametrize("content", ["a O\nb ?\n", "a O\nb\n", "a O\nb B-ORG\n", "a B\nb I-NP\n"])
def test_a_test_file_with_other_labels_is_predicted(content, written, capsys):
    path = written(content, "test.conll")
    found = word_files.read(path, LABELS, needs_labels=False)
    assert words_of(found) == [["a", "b"]] and not found.has_labels
    assert_names(capsys.readouterr().out, f"not scored ... {path}, line")


def test_words_that_are_labels(written):
    path = written("O in\nB-LOC Ulm\nO .\n", "test.conll")
    with refuses(f"{path} ... column 0 ... 'O' ... --text_column"):
        word_files.read(path, LABELS, needs_labels=False)
    path = written("Ulm B-LOC\nin O\n. O\n", "test.conll")  # of a training with other columns
    with refuses(f"{path} ... column 1 ... 'B-LOC' ... --text_column"):
        word_files.read(path, LABELS, needs_labels=False, columns=Columns(1, 3))
    with refuses(f"{path}, line 1 ... columns 0 to 1 ... --label_column ... 3"):
        word_files.read(path, LABELS, columns=Columns(0, 3))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("in O\nUlm LOC\n", "Anna came to Ulm\nShe is here now .\nHi\n"),
        ("in O\nUlm LOC\n", "It is Ulm .\nShe is here .\n"),
        ("in O\n. LOC\n", "Anna came to Ulm .\nShe is here .\nShe is .\n"),  # all end with a label
        ("in\tO\nUlm\tLOC\n", "Anna came to Ulm.\nShe is here now.\n"),
    ],
)
def test_texts_in_place_of_words(train, test, written, tmp_path):
    written(train, "train.txt")
    path = written(test, "test.txt")
    labels = find_labels(str(tmp_path))
    with refuses(f"{path}, line 1 ... predict.py ... .conll"):
        ner.NerData(task(None, 8, labels), str(tmp_path), "", "").read("test")


def test_labels_of_the_test_file_that_may_be_missing(written, tmp_path, capsys):
    data = ner.NerData(task(None, 8), str(tmp_path), "", "")
    for content, is_said in (("a O\nb O\nc O\n", True), ("a O\nb O\nc B-LOC\n", False)):
        path = written(content, "test.conll")
        data.read("test")
        assert names(capsys.readouterr().out, f"{path} ... 'O'") == is_said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", "by _ _ _\nBob _ _ _\n"),  # MultiCoNER
        *(("a.conll", f"by\t{none}\nBob\t{none}\n") for none in ("-", "-1", "?", "nan")),
        *(("a.jsonl", f'{{"tokens": ["by", "Bob"], "tags": {tags}}}')
          for tags in ("null", "[]", '["", ""]')),
    ],
)  # fmt: skip
def test_stand_ins_for_labels(name, content, written):
    corpus = word_files.read(written(content, name), LABELS, needs_labels=False)
    assert words_of(corpus) == [["by", "Bob"]] and not corpus.has_labels
    with refuses(f"{name}, line 1"):
        word_files.read(written(content, name), LABELS)
    if "\t-\n" in content:  # it may also be a label
        assert word_files.read(written(content, name), ("-", "X"), needs_labels=False).has_labels


def test_the_file_of_a_split(written, tmp_path):
    text = written("a O\n", "dev.txt")
    assert word_files.input_file(str(tmp_path), "dev") == text
    for ending in ("conllu", "iob2", "bio", "csv", "tsv", "jsonl", "json"):
        table = written("word,label\na,O\n", f"test.{ending}")
        assert word_files.input_file(str(tmp_path), "test") == table
        (tmp_path / f"test.{ending}").unlink()
    conll = written("a O\n", "dev.conll")
    with refuses(f"{conll} ... {text}"):
        word_files.input_file(str(tmp_path), "dev")
    with refuses(f"{tmp_path}/train.conll ... .txt ... .jsonl ... --data_dir"):
        word_files.input_file(str(tmp_path), "train")


def test_the_labels(written, tmp_path):
    written("a I-PER\nb B-PER\nc O\nd B-LOC\n")
    assert find_labels(str(tmp_path)) == ("O", "B-LOC", "B-PER", "I-PER")
    written("a B-10\nb B-9\nc O\nd I-9\n")
    assert find_labels(str(tmp_path)) == ("O", "B-10", "B-9", "I-9")
    assert find_labels("nowhere", ["B-PER", "O"]) == ("B-PER", "O")
    for bad in (["O"], ["O", "O", "B-PER"], ["O", "B-LOC", "I-LOC", "PER"]):
        with refuses("--labels"):
            find_labels("nowhere", bad)
    with refuses("--labels"):
        find_labels("nowhere")
    written("a O\n")
    with refuses(f"{tmp_path}/train.conll"):
        find_labels(str(tmp_path))


def test_labels_that_stand_before_the_words(written, tmp_path):
    written("B-PER Anna\nO in\nB-LOC Ulm\nO .\n")
    with refuses("train.conll ... --label_column=0 ... --text_column"):
        find_labels(str(tmp_path))
    assert find_labels(str(tmp_path), columns=Columns(1, 0)) == ("O", "B-LOC", "B-PER")
    written("Anna B-PER NP\nin O PP\n")
    assert find_labels(str(tmp_path), columns=Columns(0, 2)) == ("NP", "PP")


@pytest.mark.parametrize(
    ("misc", "column"),
    [(("SpaceAfter=No", "_"), None), (("NER=B-X", "_"), None), ("__", None), (("a=b", "_"), 9)],
)
def test_the_last_column_of_conll_u(written, tmp_path, misc, column):
    words = [f"{n}\tw\tw\tNOUN\tNN\t_\t0\troot\t_\t{cell}" for n, cell in enumerate(misc, 1)]
    path = written("\n".join(words))
    if column:
        assert {*find_labels(str(tmp_path), columns=Columns(None, 9))} == {*misc}
        return
    with refuses(f"{path} ... MISC ... --label_column=3"):
        find_labels(str(tmp_path))


@pytest.mark.parametrize("word", ["en:Ulm", "科0"])
def test_a_mark_of_all_words(written, word):
    path = written(f"{word} O\n" * 21)
    with refuses(f"{path} ... {word} ... --text_column=0"):
        word_files.read(path)
    for allowed, columns in (("a:b", Columns(0)), ("http", word_files.RECOGNISED)):
        content = f"{word} O\n" * 21 + f"{allowed} O\n"
        assert len(word_files.read(written(content), columns=columns).words) == 22


def test_brackets_of_conll_2012(written):
    rows = "x 0 In *\nx 1 New (GPE*\nx 2 York *\nx 3 City *)\nx 4 Bob (PER)\nx 5 Al (PER*)\n"
    columns = Columns(2, 3)
    wanted = [["O", "B-GPE", "I-GPE", "I-GPE", "B-PER", "B-PER"]]
    for labels in ((), (*wanted[0],)):
        assert ner.true_labels(word_files.read(written(rows), labels, columns=columns)) == wanted
    path = written("x 0 In *\nx 1 Ulm *\n", "dev.conll")
    assert ner.true_labels(word_files.read(path, ("O", "B-GPE"), columns=columns)) == [["O", "O"]]
    assert ner.true_labels(word_files.read(path, ("*", "x"), columns=columns)) == [["*", "*"]]
    path = written(rows.replace("\n", " -\n"))
    with refuses(f"{path} ... --label_column=3"):
        find_labels(path.rpartition("/")[0], columns=Columns(2))
    path = written(rows.replace("2 York *", "2 York (GPE*"))
    with refuses(f"{path}, line 1 ... (GPE* ... GPE"):
        word_files.read(path, columns=columns)


def test_spans_with_numbers_of_webanno(written):
    columns = Columns(2, 4)
    rows = ["Bad\t*\tLOC[1]", "Urach\t*\tLOC[1]", "in\t_\t_", "Ulm\t_\tLOC", "Bob\t*\tPER[2]"]
    path = written("#Text=x\n" + "".join(f"1-{n}\t0-3\t{row}\t\n" for n, row in enumerate(rows)))
    wanted = [["B-LOC", "I-LOC", "O", "B-LOC", "B-PER"]]
    assert ner.true_labels(word_files.read(path, columns=columns)) == wanted
    path = written("1-1\t0-2\tin\t_\t_\n1-2\t3-6\tUlm\t_\tLOC\n", "dev.tsv")
    assert ner.true_labels(word_files.read(path, wanted[0], columns=columns)) == [["O", "B-LOC"]]
    assert {*word_files.read(path, ("_", "LOC"), columns=columns).labels} == {"_", "LOC"}
    assert {*word_files.read(path, columns=columns).labels} == {"_", "LOC"}  # plain tags
    path = written("1-1\t0-3\tUlm\t*\tPER[1]|LOC[2]\n1-2\t4-6\tin\t_\t_\n")
    with refuses(f"{path}, line 1 ... 'PER[1]|LOC[2]'"):
        word_files.read(path, columns=columns)


def test_spans_under_a_key_of_conll_u(written):
    def rows(cells):
        return "".join(f"{n}\tw\tw\t_\t_\t_\t_\t_\t_\t{cell}\n" for n, cell in enumerate(cells, 1))

    path = written(rows(["name=B-PER|SpaceAfter=No", "SpaceAfter=No|name=O"]), "train.conllu")
    assert word_files.read(path).labels == ["B-PER", "O"]
    path = written(rows(["name=O", "SpaceAfter=No|name=O"]), "dev.conllu")
    assert word_files.read(path, LABELS).labels == ["O", "O"]


def test_a_file_with_other_labels(written):
    corpus = word_files.read(written("-DOCSTART- -X- O\n\na X O\n\t\nb\tc O\tO\r\n\nc\u00a0d O\n"))
    text = word_files.with_labels(corpus, ["B-LOC", "I-LOC", "O"])
    assert text == "-DOCSTART- -X- O\n\na\tX\tB-LOC\n\nb\tc O\tI-LOC\n\nc\u00a0d\tO\n"
    assert words_of(word_files.read(written(text))) == words_of(corpus)


# --- Columns, comments, tables ---

INDEXED = "# id 7\n1\tAnna\tB-PER\tO\n2\tMeyer\tI-PER\tO\n\n1\tin\tO\tO\n2\tUlm\tB-LOC\tB-X\n"
INDEXED_WORDS = ["Anna/B-PER Meyer/I-PER", "in/O Ulm/B-LOC"]
CONLL_U = (
    "# text = im Haus\n1-2\tim\t_\t_\n1\tin\tADP\t_\n2\tdem\tDET\t_\n2.1\tx\t_\t_\n3\tHaus\tNOUN\t_"
)
SENTENCES_OF_CSV = 'Sentence: 1,EU,NNP,B-ORG\n,",",",",O\nSentence: 2,Peter,NNP,B-PER\n'
NAMED_SENTENCES = f"Sentence #,Word,POS,Tag\n{SENTENCES_OF_CSV}"
EU, ANNA = ["EU/B-ORG ,/O", "Peter/B-PER"], ["Anna/B in/O", "Ulm/B"]
FORMS = [  # name, content, columns of word and label, number of comments, sentences
    # A column that counts is never the words, unless words are numbers.
    ("a.conll", INDEXED, (), 1, ["Anna/O Meyer/O", "in/O Ulm/B-X"]),
    ("a.conll", INDEXED, (None, 2), 1, INDEXED_WORDS),
    ("a.conll", f"ID\tFORM\tNER\tINNER\n{INDEXED}", ("FORM", "NER"), 1, INDEXED_WORDS),
    ("a.conll", "1 a O\n2 b O\n\n3 c O\n4 d O\n", (), 0, ["a/O b/O", "c/O d/O"]),
    ("a.conll", "1 O\n2 O\n2 O\n", (), 0, ["1/O 2/O 2/O"]),
    ("a.conll", "1 x O\n5 x O\n", (), 0, ["1/O 5/O"]),
    ("a.conll", "1-2\tim\tX\n1\tin\tO\n2\tdem\tO\n2.1\tx\tO\n", (1, 2), 2, ["in/O dem/O"]),
    ("a.conll", CONLL_U, (None, 2), 3, ["in/ADP dem/DET Haus/NOUN"]),
    # A file of one column: words may have spaces.
    ("a.conll", "# id 0\nNew York \nis\n.\n\nUlm\n", (), 1, ["New York is .", "Ulm"]),
    ("a.csv", "New York\nis\n\nUlm\n", (), 0, ["New York is", "Ulm"]),
    ("a.csv", "word\nUlm\n,\nist\n", (), 0, ["word Ulm , ist"]),
    # Comments, and words with a hash.
    ("a.conll", "# a comment\na O\n# another comment\nb O\n", (), 2, ["a/O b/O"]),
    ("a.conll", "#tag O\n# O\na O\n", (), 0, ["#tag/O #/O a/O"]),
    ("a.conll", "# comment\na O\n", (), 1, ["a/O"]),
    ("a.conll", "#tag\na\n# so it is\n", (), 1, ["#tag a"]),
    ("a.conll", "#tag B-LOC\na O\n", (), 0, ["#tag/B-LOC a/O"]),
    ("a.conll", "#tag b-loc\na o\n", (), 0, ["#tag/b-loc a/o"]),
    ("a.conll", "#a\t#\nis\tV\n\n#b\t#\n", (), 0, ["#a/# is/V", "#b/#"]),
    ("a.conll", "is\tV\n#b\tT\n", (), 0, ["is/V #b/T"]),
    # O is a pronoun here.
    ("a.conll", "I\tO\nsaw\tV\n#a\t#\n#b\t#\n", (), 0, ["I/O saw/V #a/# #b/#"]),
    ("a.conll", "#id\t1\nis\tV\n\n#id\t2\nit\tN\n", (), 2, ["is/V", "it/N"]),
    ("a.conll", "#begin document\na O\nb B-PER\n#end document\n", (), 2, ["a/O b/B-PER"]),
    ("a.conll", "# sent_id = 1\na b c O\n#newdoc id = 1\n", (), 2, ["a/O"]),
    # Comments before a header, or with it.
    *(("a.conll", "# my corpus\nword\ttag\nAnna\tB\nin\tO\n\nUlm\tB\n", columns, 1, ANNA)
      for columns in ((), ("word", "tag"))),
    ("a.conll", "# sentence tokens and word tags\nAnna B\nin O\n\nUlm B\n", (), 1, ANNA),
    *(("a.conll", "# word tag\nAnna B\nin O\n\nUlm B\n", columns, 0, ANNA)
      for columns in ((), ("word", "tag"))),
    ("a.conll", "# word tag\nAnna x B\nin x O\n\nUlm x B\n", (), 1, ANNA),
    ("a.conll", "# text = word tag\nAnna x x B\nin x x O\n\nUlm x x B\n", (), 1, ANNA),
    ("a.conllu", "# global.columns = ID FORM NER MISC\n# id = 1\n1\tAnna\tB\t_\n2\tin\tO\t_\n\n"
     "1\tUlm\tB\t_\n", (), 1, ANNA),
    ("a.tsv", "#\tword\ttag\n1\tAnna\tB\n2\tin\tO\n\n1\tUlm\tB\n", (), 0, ANNA),
    # What divides sentences.
    *(("a.tsv", f"{header}EU\2,\tB-ORG\2O\nPeter\tB-PER\n", (), 0, EU)
      for header in ("", "text_a\tlabel\n")),
    ("a.tsv", "EU\2,\nPeter\n", (), 0, ["EU ,", "Peter"]),
    ("a.tsv", "sent_id\tword\ttag\n1\tAnna\tB\n1\tin\tO\n2\tUlm\tB\n", (), 0, ANNA),
    ("a.csv", "sentence_idx,word,tag\n1,Anna,B\n1,in,O\n2,Ulm,B\n", (), 0, ANNA),
    ("a.csv", "doc_id,sent_id,word,tag\na,1,Anna,B\nb,1,in,O\n", (), 0, ["Anna/B", "in/O"]),
    ("a.csv", "sentence_id,word\n1,Anna\n1,in\n2,Ulm\n", (), 0, ["Anna in", "Ulm"]),
    ("a.csv", "sent_id,word\n1,a\n1,b\n2,c\n2,d\n1,e\n1,f\n2,g\n2,h\n", (), 0,
     ["a b", "c d", "e f", "g h"]),
    ("a.conll", "1\tAnna\tB\n2\tin\tO\n1\tUlm\tB\n2\t.\tO\n", (), 0, ["Anna/B in/O", "Ulm/B ./O"]),
    ("a.conll", "Document O\nSentence O\n", (), 0, ["Document/O Sentence/O"]),
    ("a.tsv", "token\tsent_start\ttag\nA\t1\tO\nB\t0\tO\n", (), 0, ["A/O B/O"]),
    ("a.csv", "Document,O\nBob,B-P\nx,O\n", (), 0, ["Document/O Bob/B-P x/O"]),
    *(("a.csv", NAMED_SENTENCES, columns, 0, EU) for columns in ((), ("Word", "Tag"))),
    ("a.csv", SENTENCES_OF_CSV, (1, 3), 0, EU),
    ("a.csv", "sent_id,word,tag\n,Anna,B\n,in,O\n2,Ulm,B\n", (), 0, ANNA),  # cut
    ("a.csv", NAMED_SENTENCES, (1, 3), 0, EU),
    ("a.csv", "sentence_id,words,labels\n1,Anna,B\n1,in,O\n2,Ulm,B\n", (1, 2), 0, ANNA),
    # A space behind each comma.
    *(("a.txt", f"-DOCSTART- -X- O\nEU{mark} B-ORG\n,{mark} O\n\nPeter{mark} B-PER\n", (), 0, EU)
      for mark in ",;"),
    *((name, "sent_id, word, tag\n1, Anna, B\n1, in, O\n2, Ulm, B\n", (), 0, ANNA)
      for name in ("a.txt", "a.csv")),
    # Tables, which have no comments.
    ("a.csv", 'word,label\nEU,B-ORG\n",",O\n\nPeter,B-PER\n', (), 0, EU),
    ("a.tsv", "Token\tNER\nEU\tB-ORG\n,\tO\n\nPeter\tB-PER\n", (), 0, EU),
    ("a.tsv", 'word\ttag\n"""Hi"\tO\n""""\tX\n\nUlm\tO\n', (), 0, ['"Hi/O "/X', "Ulm/O"]),
    ("a.tsv", '"Hi"\t"O"\n"a"\t"B-X"\n', (), 0, ["Hi/O a/B-X"]),
    *(("a.tsv", f'"\tO\n{word}\tX\n"\tO\n', (), 0, [f'"/O {word}/X "/O'])
      for word in ('""', '""""', '"a"', "a")),
    ("a.tsv", '"a"\tO\n""\tX\nb\tO\n', (), 0, ['"a"/O ""/X b/O']),
    ("a.jsonl", '{"tokens": ["EU", ","], "ner_tags": ["B-ORG", "O"]}\n'
     '{"tokens": ["Peter"], "ner_tags": ["B-PER"]}\n', (), 0, EU),
    ("a.json", '[{"words": ["EU", ","], "labels": ["B-ORG", "O"]},\n'
     '{"words": ["Peter"], "labels": ["B-PER"]}]', (), 0, EU),
    *(("a.csv", f"id,{names}\n0,\"['EU' ',']\",{tags}\n1,[Peter],['B-PER']\n", columns, 0, EU)
      for names, columns in (("tokens,tags", ()), ("toks,gold", ("toks", "gold")), ("a,b", (1, 2)))
      for tags in ("['B-ORG' 'O']", "\"[\"\"B-ORG\"\", 'O']\"")),
    ("a.csv", "tokens\n\"['EU', ',']\"\n[Peter]\n", (), 0, ["EU ,", "Peter"]),
    ("a.jsonl", '{"text": ["EU", ","], "labels": ["B-ORG", "O"]}\n'
     '{"text": ["Peter"], "labels": ["B-PER"]}\n', (), 0, EU),
    ("a.jsonl", '{"tokens": ["New York", "is"]}\n', (), 0, ["New York is"]),
    ("a.jsonl", '{"tokens": ["a", "b"], "tags": [1.0, 0]}\n{"tokens": ["c"], "tags": [1]}', (), 0,
     ["a/1 b/0", "c/1"]),
    ("a.csv", "word,tag\n[1],O\n[x],O\n", (), 0, ["[1]/O [x]/O"]),
    ("a.csv", "word,label\n#x,B-TAG\nis,O\n", (), 0, ["#x/B-TAG is/O"]),
    ("a.jsonl", '{"tokens": ["#x", "is"], "tags": ["B-TAG", "O"]}\n', (), 0, ["#x/B-TAG is/O"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "columns", "comments", "sentences"), FORMS)
def test_forms_of_files(name, content, columns, comments, sentences, written):
    found = word_files.read(written(content, name), needs_labels=False, columns=Columns(*columns))
    said = [" ".join("/".join(filter(None, word[:2])) for word in words) for words in found]
    assert (said, found.comments) == (sentences, comments)
    if "1-2" not in content:  # lines of CoNLL-U that are no words stay, and read as words
        content = word_files.with_labels(found, ["x"] * len(found.words))
        again = word_files.read(written(content, "again.conll"), "x", columns=found.columns)
        assert words_of(again) == words_of(found) and {w.label for w in again.words} == {"x"}


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ("O B-x I-x", "BIO"), ("O I-x I-y", "BIO"), ("O B_x I_x", "BIO"),
        ("O B-x I-x E-x S-x", "BIOES"),
        ("O S-x", "BIOES"), ("O B-x I-x L-x U-x", "BILOU"), ("O U-x", "BILOU"),
        ("B-x M-x E-x S-x O", "BMES"), ("B M E S", "BMES"), ("NOUN VERB ADP", "plain tags"),
        ("O R:VERB M:DET U:DET R:NOUN", "plain tags"), ("S:sg S:pl M:x I:y", "plain tags"),
        ("O PER LOC", "plain tags"), ("1 2", "plain tags"),
        ("O x-B x-I", "BIO after the type"), ("O x_y_S x_y_E", "BIOES after the type"),
        ("O x-L x-U", "BILOU after the type"), ("x-B x-I", "plain tags"),
        ("O NN-B NN-X", "plain tags"), ("O B:x I:x", "BIO"), ("o b-x i-x", "BIO in small letters"),
        ("o b-x e-x s-x", "BIOES in small letters"), ("b-x i-x", "plain tags"),
        ("- x_B x_I", "BIO after the type"), ("_ B-x I-x", "BIO"), ("0 B-x E-x", "BIOES"),
        ("- NN-S VB", "plain tags"), ("- 0", "plain tags"), ("-", "plain tags"),
        ("o n-b n-i", "plain tags"), ("o", "plain tags"), ("b i", "plain tags"),
    ],
)  # fmt: skip
def test_the_scheme_of_labels(labels, name):
    assert tag_schemes.find(labels.split()).name == name


def test_a_sign_for_words_in_no_span():
    metrics = scores_of("- x_B x_I - y_B", "- x_B x_I y_B -")
    assert metrics == {"precision": 0.5, "recall": 0.5, "f1": 0.5}


def test_labels_of_two_schemes():
    for labels in ("PER O B-x I-x", "L-x B-x E-x", "0 O B-x", "_ O B-x I-x"):
        with refuses(f"{labels.split()[0]} ... O"):
            tag_schemes.find(labels.split())


@pytest.mark.parametrize(("typed", "word"), [({}, None), ({"text_column": "0"}, 0)])
def test_a_recorded_default_is_no_column_that_was_chosen(typed, word, tokenizer, tmp_path):
    """Later commands find the words as the training did, which may not be the first column."""
    settings = types.SimpleNamespace(
        output_dir=str(tmp_path), data_dir=str(tmp_path), cached_dir=None, task_name="ner",
        text_column="0", label_column=None, labels=["O", "B-x"], typed=lambda _: typed,
        do_train=False,
    )  # fmt: skip
    assert known.data_set(settings, TextInput(tokenizer, 8, SIZES)).columns == Columns(word)


@pytest.mark.parametrize(
    ("record", "pattern"),
    [
        (None, word_files.CHARACTERS),
        ({}, word_files.CHARACTERS),  # the training ended before its report
        ({"header": []}, None),  # of an earlier version
        ({"word_pattern": "."}, "."),
    ],
)
def test_a_training_finds_how_texts_are_split(record, pattern, written, tokenizer, tmp_path):
    written("北 O\n京 B-x\n", "train.txt")
    settings = types.SimpleNamespace(
        output_dir=str(tmp_path), data_dir=str(tmp_path), cached_dir=None, task_name="ner",
        text_column="0", label_column=None, labels=None, typed=lambda _: {}, do_train=True,
    )  # fmt: skip
    record = record if record is None else types.SimpleNamespace(data=record)
    data = known.data_set(settings, TextInput(tokenizer, 8, SIZES), record)
    assert data.task.word_pattern == pattern


def scores_of(gold, found):
    return tag_schemes.metrics([gold.split()], [found.split()], tag_schemes.find(gold.split()))


@pytest.mark.parametrize(
    ("gold", "found", "precision", "recall"),
    [
        ("B-P I-P O B-L", "B-P I-P O B-P", 1 / 2, 1 / 2),
        ("I-P I-P O I-L", "I-P O O I-L", 1 / 2, 1 / 2),
        ("B-P E-P O S-L", "B-P E-P O S-L", 1, 1),
        ("B-P I-P E-P S-L", "B-P I-P O S-L", 1, 1 / 2),  # a span without an end is none
        ("B-P L-P O U-L", "B-P L-P U-L U-L", 2 / 3, 1),
        ("B-P M-P E-P S-L", "B-P E-P S-P S-L", 1 / 3, 1 / 2),
        ("B E S", "B E B", 1, 1 / 2),
        ("P-B P-I O L-B", "P-B P-I O P-B", 1 / 2, 1 / 2),
        ("b-p i-p o b-l", "b-p i-p o b-p", 1 / 2, 1 / 2),
        ("B:p I:p O B:l", "B:p I:p O B:p", 1 / 2, 1 / 2),
        ("P-B P-L O L-U", "P-B P-L L-U L-U", 2 / 3, 1),
        ("I-P E-P O E-L", "I-P E-P O O", 1, 1 / 2),  # IOE, in which no mark begins a span
    ],
)
def test_spans_are_scored_by_their_scheme(gold, found, precision, recall):
    scores = scores_of(gold, found)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)


def test_plain_tags_are_scored_each():
    scores = scores_of("N N V A", "N V V N")
    assert scores["f1_N"] == pytest.approx(1 / 2) and scores["f1_V"] == pytest.approx(2 / 3)
    assert scores["f1_A"] == 0 and scores["f1"] == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert task(None, 8, ("N", "V")).key_metric == "eval_accuracy"
    assert "N" in tag_schemes.report([["N", "V"]], [["N", "N"]], tag_schemes.PLAIN)
    assert scores_of("accuracy x", "accuracy accuracy")["f1_accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("labels", "found", "has_spans"),
    [
        ("O B-x I-x", "O O", False), ("O B-x I-x", "I-x O", True),
        ("O B-x E-x", "E-x E-x", False), ("O B-x E-x", "B-x E-x", True),
        ("O B-x L-x U-x", "L-x O", False), ("O x-B x-E", "x-E x-E", False),
    ],
)  # fmt: skip
def test_a_report_needs_a_span(labels, found, has_spans):
    scheme = tag_schemes.find(labels.split())
    assert bool(tag_schemes.report([["O", "O"]], [found.split()], scheme)) == has_spans


@pytest.mark.parametrize(
    ("labels", "other"),
    [("O B-x I-x E-x S-x", "B-x I-x O"), ("O B-x I-x L-x U-x", "O I-x B-x"),
     ("O x-B x-I x-S", "O x-B x-I"), ("o b-x i-x e-x s-x", "b-x o")],
)  # fmt: skip
def test_a_file_of_another_scheme(labels, other, written):
    path = written("".join(f"w {label}\n" for label in other.split()), "dev.conll")
    scheme = tag_schemes.find(labels.split()).name
    with refuses(f"{path} ... {min({*other.split()} - {*'Oo'})} ... {scheme}"):
        word_files.read(path, labels.split())
    assert word_files.read(path, other.split()).has_labels  # alone, it is of another scheme


@pytest.mark.parametrize(
    ("train", "test", "words", "said"),
    [
        ("word tag\nin O\nUlm LOC\n", "word\nAnna\n", "Anna", ""),
        ("in\tO\nUlm\tLOC\n", "New York\nAnna Maria\n", "New York/Anna Maria", ""),
        ("in\tO\nUlm\tLOC\n", "New O\nYork LOC\n", "New/York", ""),
        ("in IN P O\nUlm NN N LOC\n", "New NN N\nYork NN N\n", "New/York", "test ... 3 ... 4"),
        ("in IN P O\nUlm NN N LOC\n", "New O\nYork LOC\n", "New/York", ""),
    ],
)
def test_the_form_of_the_training_file(train, test, words, said, written, tmp_path, capsys):
    written(train), written(test, "test.conll"), written(test, "dev.conll")
    data = ner.NerData(task(None, 8, ("LOC", "O")), str(tmp_path), "", "")
    found, _ = data.read("test")
    assert ["/".join(sentence) for sentence in words_of(found)] == [words]
    assert data.header == (("word", "tag") if "word" in train else ())
    assert found.has_labels == ("LOC" in test)
    if said:  # the predicted label comes last, and no column is lost
        assert_names(capsys.readouterr().out, said)
        assert word_files.with_labels(found, ["O", "LOC"]).startswith("New\tNN\tN\tO\n")
        with refuses(f"dev.conll ... {said.removeprefix('test ... ')}"):
            data.read("dev")


OBJECTS = '{"tokens": ["in", "Ulm"], "pos": ["IN", "NN"], "ner_tags": ["O", "LOC"]}\n'


@pytest.mark.parametrize(
    ("name", "train", "test", "columns"),
    [
        *(("a.csv", "word,pos,tag\nin,IN,O\nUlm,NN,LOC\n", "word,pos\nAnna,NN\n", columns)
          for columns in ((), ("word", "tag"), (0, 2))),
        *(("a.csv", "word,tag,pos\nin,O,IN\nUlm,LOC,NN\n", "word,pos\nAnna,NN\n", columns)
          for columns in ((None, "tag"), (0, 1), ("word", 1))),
        ("a.csv", "id,word,tag\n1,in,O\n2,Ulm,LOC\n", "word\nAnna\n", (1, 2)),
        ("a.conll", "word pos ner\nin IN O\nUlm NN LOC\n", "word pos\nAnna NN\n", ()),
        *(("a.jsonl", OBJECTS, '{"tokens": ["Anna"], "pos": ["NN"]}\n', columns)
          for columns in ((), ("tokens", "ner_tags"))),
    ],
)  # fmt: skip
def test_a_test_file_without_the_column_of_labels(
    name, train, test, columns, written, tmp_path, capsys
):
    written(train, name.replace("a", "train", 1)), written(test, name.replace("a", "test", 1))
    columns = Columns(*columns)
    data = ner.NerData(task(None, 8, ("LOC", "O")), str(tmp_path), "", "", columns=columns)
    found, _ = data.read("test")
    assert words_of(found) == [["Anna"]] and not found.has_labels
    assert not capsys.readouterr().out
    rest = "NN\t" if "NN" in test and "json" not in name else ""
    assert word_files.with_labels(found, ["LOC"]).strip() == f"Anna\t{rest}LOC"


def test_the_same_columns_in_another_order(written, tmp_path):
    written("word pos tag\nin IN O\nUlm NN LOC\n"), written("word tag pos\nx O IN\n", "dev.conll")
    found, _ = ner.NerData(task(None, 8, ("LOC", "O")), str(tmp_path), "", "").read("dev")
    assert found.labels == ["O"]


def test_two_columns_with_the_name_of_the_labels(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("word,tag,tag\nAnna,x,B\nin,y,O\n")
    for columns in (word_files.RECOGNISED, Columns("word", "tag")):
        with refuses(f"{path} ... two ... 'tag' ... --label_column"):
            word_files.read(str(path), columns=columns)
    (words,) = word_files.read(str(path), columns=Columns("word", 2))
    assert [word.label for word in words] == ["B", "O"]


def test_a_label_that_only_the_first_line_has(written, tmp_path, capsys):
    rows = [f"w{n} {'N' if n % 3 else 'V'}\n" for n in range(20)]
    for first, count, is_said in (("label", 20, True), ("label", 19, False), ("N", 20, False)):
        find_labels(written("".join([f"mot {first}\n", *rows[:count]])).rpartition("/")[0])
        assert ("'label'" in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(
    "row",
    ["der{n}\tART\tdie{n}", "wir\tPPER\tWir", "this is\tline {n} .", "T{n}\tPerson 0 5\tBob {n}"],
    ids=["lemmas of other words", "lemmas", "text", "brat"],
)
def test_a_last_column_that_is_like_words(row, written, tmp_path):
    lines = [row.format(n=n) for n in range(150)] + [f"a{n}\tX\tb{n % 8}" for n in range(100)]
    path = written("\n".join(lines))
    with refuses(f"{path} ... 250 words ... --label_column"):
        find_labels(str(tmp_path))
    assert find_labels(str(tmp_path), columns=Columns(0, len(lines[0].split("\t")) - 1))


def test_parts_of_speech_that_are_their_words(written, tmp_path):
    written("".join(f"w{n}\tN\n.\t.\n,\t,\n" for n in range(9)))
    assert find_labels(str(tmp_path)) == (",", ".", "N")
    written("".join(f"w{n}\tN;{n % 51}\n" for n in range(100)))  # many tags of few words
    assert len(find_labels(str(tmp_path))) == 51
    written("a\tN\n" * 40 + "x\tX\n" * 20)  # a third
    assert find_labels(str(tmp_path)) == ("N", "X")
    path = written("a\tN\n" * 40 + "x\tX\n" * 21)
    with refuses(f"{path} ... 61 words ... --label_column"):
        find_labels(str(tmp_path))


@pytest.mark.parametrize(("count", "warns"), [(201, True), (200, False)])
def test_a_single_long_sentence_is_a_warning(count, warns, written, tmp_path, capsys):
    written("a O\nb B-X\n" * (count // 2) + "c O\n" * (count % 2))
    find_labels(str(tmp_path))
    assert (f"all {count} words" in capsys.readouterr().out) == warns


@pytest.mark.parametrize(
    ("name", "row", "header", "warns"),
    [
        ("train.conll", "一二三四五六七八九十一二三 -X- _ B-{n}\n\n", "", True),  # of Label Studio
        ("train.conll", "一二三四五六七八九十一二 -X- _ B-{n}\n\n", "", False),
        ("train.conll", "一二三四五六七八九十一二{n} -X- _ B-{n}\n", "", False),
        ("train.csv", "a film {n},{n}\n", "text,label\n", True),
        ("train.tsv", "a film\t{n}\nhere\t{n}\n", "", False),
    ],
)
def test_a_warning_of_texts_for_words(written, name, row, header, warns, capsys):
    path = written(header + "".join(row.format(n=n % 2) for n in range(10)), name)
    find_labels(path.rpartition("/")[0])
    assert names(capsys.readouterr().out, f"{path}, line ... 10 of 1 ... tsv") == warns


@pytest.mark.parametrize(("tags", "warns"), [([3, 0], True), (["3", "0"], True), ([3, "O"], False)])
def test_a_warning_of_numbers_for_labels(written, tags, warns, capsys):
    path = written(json.dumps({"tokens": ["EU", "in"], "ner_tags": tags}), "train.jsonl")
    assert {*find_labels(path.rpartition("/")[0])} == {*map(str, tags)}
    assert names(capsys.readouterr().out, f"{path} ... 3 ... B-PER") == warns


@pytest.mark.parametrize(
    ("labels", "doubt"),
    [
        (["PER", "Per", "NN"], "'PER' (1) ... 'Per' (1)"), (["NN", "nan", "NN"], "'nan' of 1"),
        (["neg", "n\u0435g"], "'n\\u0435g'"),
        (["\xe9", "e\u0301"], "'\\xe9' (1) ... 'e\\u0301' (1)"),
        ([-100, 1, 0, -100], "'-100' of 2"), (["-", "-", "PER_B"], ""), (["none", "none", "x"], ""),
    ],
)  # fmt: skip
def test_doubts_about_labels(labels, doubt, written, capsys):
    """A mark such as ? may be its own tag, and most words have a label for no meaning."""
    words = [f"w{n}" for n in range(len(labels))]
    path = written(json.dumps({"tokens": [*words, "?"], "tags": [*labels, "?"]}), "train.jsonl")
    find_labels(path.rpartition("/")[0])
    said = capsys.readouterr().out
    assert names(said, f"{path} ... {doubt}") if doubt else not said


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.jsonl", '{"toks": ["EU"], "gold": ["O"]}', (), "tokens ... 'toks', 'gold'"),
        ("a.jsonl", '{"tokens": ["EU"], "gold": ["O"]}', (None, "tag"), "tag ... 'tokens', 'gold'"),
        ("a.jsonl", '{"tokens": ["EU", "x"], "tags": ["O"]}', (), "line 1 ... 2 ... 1"),
        ("a.jsonl", '{"tokens": "EU x", "tags": ["O"]}', (), "line 1 ... EU x"),
        ("a.tsv", "a\2b\tO\n", (), "line 1 ... U+0002"),
        ("a.jsonl", '{"text": "EU x", "label": [[0, 2, "ORG"]]}', (), "'text', 'label' ... lists"),
        ("a.jsonl", '{"tokens": ["EU"]}', (), "line 1"),
        ("a.jsonl", '{"tokens": ["EU"], "ner_tag": ["O"]}', (), "line 1 ... ner_tag ... --label_c"),
        ("a.csv", "sent_id,word,tag\n1,a,O\n2,b,O\n1,c,O\n2,d,O\n1,e,O\n", (), "'1'"),
        ("a.jsonl", '{"tokens": "[EU]", "tags": ["O"]}', (), "line 1"),
        ("a.jsonl", '{"tokens": ["EU", null], "tags": ["O", "O"]}', (), "line 1 ... null"),
        ("a.jsonl", '{"tokens": ["EU", ""]}', (), "line 1"),
        ("a.jsonl", '{"tokens": [{"text": "EU", "id": 0}], "spans": []}', (), "line 1 ... 'EU'"),
        ("a.jsonl", '{"tokens": [["EU", "B-ORG"], ["x", "O"]]}', (), "line 1 ... 'B-ORG'"),
        ("a.csv", 'tokens,tags\n"[""EU"", ""x""]",[0]\n', (), "line 2 ... 2 ... 1"),
    ("a.csv", "tokens,tags\n[EU],[O]\n[in]\n", (), "line 3"),
    ("a.csv", "toks,gold\n[EU x],[0 3]\n", (), "line 2 ... 2 ... '[0 3]' ... --text_column"),
    ("a.csv", "text,labels\nEU x,B-ORG O\nin,O\n", (), "line 2 ... 2 ... 'B-ORG O'"),
    ("a.csv", 'sent,tags\na b,"O,O"\n', ("sent", "tags"), "line 2 ... 2 ... 'O,O'"),
    ("a.conll", f"ID\tFORM\tNER\tINNER\n{INDEXED}", ("WORD", "NER"), "'WORD' ... FORM"),
        ("a.conll", "7\tAnna\tB\n7\tin\tO\n8\tUlm\tB\n", (),
         "column 0 ... 7 ... --text_column"),  # sentences have numbers
        ("a.csv", "id,text,tag\n" + "1,EU,x\n2,UN,y\n" * 10, (),
         "column 0 ... '1' ... --text_column"),  # more than 20 lines
        ("a.csv", 'text,tag\nEU is,"[{""start"": 0, ""labels"": [""ORG""]}]"\n', ("text", "tag"),
         "line 2 ... [{ ... --label_column"),
        ("a.jsonl", json.dumps(dict.fromkeys(map(str, range(100)), "EU")), (), "'5', ...:"),
        ("a.jsonl", "".join(f'{{"text": "EU", "label": {{"n{n}": 0}}}}\n' for n in range(3200)), (),
         "3201 ... 'label.n3199'"),
        ("a.tsv", "1-1\t0-2\tEU\tO\n1-2\t3-8\tsays\tO\n\n2-1\t9-11\tNo\tO\n", (),
         "column 0 ... 1-1 ... --text_column"),
        ("a.conll", "x/a 0 EU *\nx/a 1 says *\nx/a 2 no *\n\nx/b 0 No *\n", (),
         "column 0 ... x/a ... --text_column"),
    ],
)  # fmt: skip
def test_what_holds_no_words(name, content, columns, message, written):
    path = written(content, name)
    with refuses(f"{path} ... {message}"):
        word_files.read(path, columns=Columns(*columns))


@pytest.mark.parametrize("line", ["The/DT dog/NN 1/2/CD ./.", "The_DT dog_NN ._."])
def test_a_sentence_on_each_line(written, tmp_path, line):
    path = written(f"{line}\n{line[:6]}\nDogs{line[3]}NNS run{line[3]}VBP\n", "train.txt")
    with refuses(f"{path}, line 1 ... 1 to {len(line.split())} columns"):
        find_labels(str(tmp_path))


def test_words_and_labels_with_slashes(written, tmp_path):
    written("1/2 CD/x\ndogs NNS/y\n\nand/or CC/z\n", "train.txt")
    assert find_labels(str(tmp_path)) == ("CC/z", "CD/x", "NNS/y")


# --- Features ---


def task(tokenizer, max_seq_length, labels=LABELS):
    return ner.NerTask(labels, TextInput(tokenizer, max_seq_length, SIZES))


def features(corpus, tokenizer, max_seq_length):
    """Features, and what is counted besides words and sentences."""
    counts = collections.Counter()
    found = task(tokenizer, max_seq_length).features(corpus, counts)
    assert (counts.pop("words"), counts.pop("sentences")) == (len(corpus.words), len(corpus))
    return found, counts


def test_a_label_is_at_the_first_piece_of_its_word(written, tokenizer):
    corpus = corpus_of(written, "The/O Redondo/B-LOC Beach/I-LOC", "unbelievably/O Smith/B-PER")
    found, counts = features(corpus, tokenizer, 32)
    assert not +counts
    schema = schemas.token_classification_schema(32, num_labels=5, vocab_size=3000)
    assert found.keys() == schema.keys()
    for row, sentence in enumerate(corpus):
        pieces = [tokenizer.encode_ids(word.text) for word in sentence]
        ids = [2, *itertools.chain(*pieces), 3]
        np.testing.assert_array_equal(found["input_ids"][row, : len(ids)], ids)
        assert found["input_mask"][row].sum() == len(ids)
        places = np.cumsum([1, *map(len, pieces)])[:-1]
        np.testing.assert_array_equal(np.flatnonzero(found["label_mask"][row]), places)
        wanted = [LABELS.index(word.label) for word in sentence]
        np.testing.assert_array_equal(found["label_ids"][row, places], wanted)
        assert found["label_ids"][row].sum() == sum(wanted)  # 0 elsewhere


def test_a_word_without_a_piece_is_unknown(written, tokenizer):
    corpus = corpus_of(written, "The/O \u0301/B-PER \x01/I-PER walked/O")
    found, counts = features(corpus, tokenizer, 16)
    assert counts == {"without_piece": 2, "split": 0, "cut": 0}
    the, walked = tokenizer.encode_ids("the walked")
    np.testing.assert_array_equal(found["input_ids"][0, :6], [2, the, UNKNOWN, UNKNOWN, walked, 3])
    np.testing.assert_array_equal(found["label_mask"][0, :6], [0, 1, 1, 1, 1, 0])
    np.testing.assert_array_equal(found["label_ids"][0, 1:5], [0, 2, 4, 0])


def test_parts_of_a_long_sentence(written):
    """Room for 4 pieces; words of 1, 3, 8, 1, 1, 1, 1 pieces, which begin at 0 1 4 12 13 14 15."""
    tokenizer = FullTokenizer(**VOCABULARIES["sentencepiece"])
    sentence = "The/O Redondo/B-LOC unbelievably/O the/O walked/B-PER a/I-PER the/O"
    found, counts = features(corpus_of(written, sentence), tokenizer, 6)
    assert counts == {"without_piece": 0, "split": 1, "cut": 4}
    the, walked, a = tokenizer.encode_ids("the walked a")
    red, on, do = tokenizer.encode_ids("redondo")
    un = tokenizer.encode_ids("unbelievably")
    wanted = [[2, the, red, on, do, 3], [2, *un[:4], 3], [2, the, walked, a, the, 3]]
    np.testing.assert_array_equal(found["input_ids"], wanted)
    wanted = [[0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0]]
    np.testing.assert_array_equal(found["label_mask"], wanted)
    wanted = [[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 2, 4, 0, 0]]
    np.testing.assert_array_equal(found["label_ids"], wanted)


TEXT = "The cat , 1990, walked unbelievably \u0301 don't http://t.co/abcd12 a 日本 Redondo"
WORDS = TEXT.split(" ")


def random_sentences(written, count, longest, seed=0):
    """Lists of words, and what is read of their file."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, longest, size=count)
    found = [[WORDS[i] for i in random.integers(0, len(WORDS), size)] for size in sizes]
    text = "\n\n".join("\n".join(f"{word} O" for word in words) for words in found)
    return found, word_files.read(written(text))


@pytest.mark.parametrize("max_seq_length", [6, 13, 40])
def test_every_word_is_kept_in_order_by_the_rule(written, tokenizer, max_seq_length):
    sentences, corpus = random_sentences(written, 40, 30)
    found, counts = features(corpus, tokenizer, max_seq_length)
    rows, places = np.nonzero(found["label_mask"])
    next_row, at, split = 0, 0, 0
    for sentence in sentences:
        begin, of_part = 0, {}  # part -> its row
        for word in sentence:
            pieces = tokenizer.encode_ids(word) or [UNKNOWN]
            row = of_part.setdefault(begin // (max_seq_length - 2), next_row + len(of_part))
            assert rows[at] == row
            assert found["input_ids"][row, places[at]] == pieces[0]
            begin, at = begin + len(pieces), at + 1
        next_row += len(of_part)
        split += len(of_part) > 1
    assert (at, next_row) == (len(rows), len(found["input_ids"]))
    assert counts["split"] == split and split > 10
    assert counts["without_piece"] == sum(sentence.count("\u0301") for sentence in sentences)


@pytest.fixture(scope="module")
def graph_tokenizer(tokenizer):
    return GraphTokenizer(tokenizer)


@pytest.mark.parametrize("max_seq_length", [6, 40])
def test_the_graph_has_the_same_sequences(written, tokenizer, graph_tokenizer, max_seq_length):
    sentences, corpus = random_sentences(written, 30, 30, seed=1)
    wanted, _ = features(corpus, tokenizer, max_seq_length)
    texts = [" \u3000" + "\u2029 ".join(words) + "\t" for words in sentences]
    texts.insert(3, "")  # no word and no sequence
    found = graph_inputs.WordLists(graph_tokenizer, max_seq_length, UNKNOWN)(tf.constant(texts))
    decoded = [[word.decode() for word in words] for words in found.words.to_list()]
    assert decoded == [*sentences[:3], [], *sentences[3:]]
    for name, values in found.features.items():
        length = values.shape[1]
        np.testing.assert_array_equal(values, wanted[name][:, :length], err_msg=name)
        assert not wanted[name][:, length:].any()
    np.testing.assert_array_equal(found.places, np.argwhere(wanted["label_mask"]))
    assert found.counts.numpy()[3] == 0 and found.counts.numpy().sum() == len(wanted["input_ids"])


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        ("北 京 。 2 0 0 4 年 N B A", word_files.CHARACTERS),
        (
            "北 京 。 2004 年 、 NBA 很 好 。 " * 5 + "“ 好 ” 。 " * 30,
            word_files.CHARACTERS_AND_ASCII,
        ),
        ("北京 很 大 。", None),
        ("I am a man .", None),
    ],
)
def test_texts_are_split_like_the_training(words, pattern, tokenizer, graph_tokenizer):
    words = words.split()
    assert word_files.find_pattern([word_files.Word(word, "O") for word in words]) == pattern
    texts = [" ".join(words), *(["".join(words) + " \u3000\n京"] if pattern else [])]
    wanted = [words, [*words, "京"]][: len(texts)]
    task_of_them = ner.NerTask(LABELS, TextInput(tokenizer, 40, SIZES), pattern)
    inputs = [{"text": text} for text in [*texts, ["北京", "大"]]]
    examples = [[word.text for word in example] for example in task_of_them.examples(inputs)]
    assert examples == [*wanted, ["北京", "大"]]
    found = graph_inputs.WordLists(graph_tokenizer, 40, UNKNOWN, pattern)(tf.constant(texts))
    assert [[word.decode() for word in row] for row in found.words.to_list()] == wanted


@pytest.mark.parametrize(
    ("is_sentencepiece", "data", "pattern"),
    [
        (False, None, r"\S"),
        (True, None, None),
        (False, {}, None),
        (True, {"word_pattern": "."}, "."),
    ],
)
def test_characters_of_a_vocabulary_of_chinese_are_words(is_sentencepiece, data, pattern):
    vocab = dict.fromkeys(["[CLS]", "北", "##北", "京", "a"])
    tokenizer = types.SimpleNamespace(vocab=vocab, is_sentencepiece=is_sentencepiece)
    record = data if data is None else types.SimpleNamespace(data=data)
    assert ner.word_pattern_of(record, tokenizer) == pattern


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_no_word_at_all(graph_tokenizer, texts):
    found = graph_inputs.WordLists(graph_tokenizer, 8, UNKNOWN)(tf.constant(texts, tf.string))
    assert found.places.shape == (0, 2) and found.features["input_ids"].shape[0] == 0
    assert found.counts.numpy().tolist() == [0] * len(texts)


# --- Metrics ---


def logits_of(arrays, predicted):
    """Logits [n, T, C] with ln 4 for the predicted label of each word, and 0 for the 4 others.

    Its probability is 1/2, theirs 1/8.
    """
    logits = np.zeros([*arrays["label_mask"].shape, len(LABELS)], np.float32)
    logits[..., 0] = 9.0  # what stands at other pieces must not matter
    ids = [LABELS.index(label) for label in predicted.split()]
    logits[arrays["label_mask"] > 0] = math.log(4) * np.eye(len(LABELS))[ids]
    return logits


def metrics(corpus, arrays, logits, batch_size):
    return task(None, 8).metrics(Split(arrays, corpus), {"logits": logits}, batch_size)


def test_the_warning_of_a_collapse_counts_words(written, tokenizer):
    corpus = corpus_of(written, "Mr./B-PER Smith/I-PER in/O London/B-LOC", "and/O")
    arrays, _ = features(corpus, tokenizer, 40)
    outputs = {"logits": logits_of(arrays, "O O O O O")}
    warning = task(None, 8).sign_of_failure(Split(arrays, corpus), outputs)
    assert_names(warning, "5 ... 'O'")


def test_metrics_by_hand(written, tokenizer):
    """Of 4 entities 2 are found, and 3 are predicted; 5 of 7 labels are right."""
    corpus = corpus_of(
        written, "Mr./B-PER Smith/I-PER in/O London/B-LOC", "Paris/B-LOC and/O Rome/B-LOC"
    )
    arrays, _ = features(corpus, tokenizer, 40)
    logits = logits_of(arrays, "B-PER I-PER O O B-LOC O B-PER")
    found = metrics(corpus, arrays, logits, 1)
    wanted = {"precision": 2 / 3, "recall": 1 / 2, "f1": 4 / 7, "eval_accuracy": 5 / 7}
    wanted["eval_loss"] = (5 * math.log(2) + 2 * math.log(8)) / 7
    wanted["loss"] = math.log(2) * ((3 + 3) / 4 + (2 + 3) / 3) / 2  # the mean of two batches
    assert found == pytest.approx(wanted)
    whole = metrics(corpus, arrays, logits, 2)
    assert whole == pytest.approx(found | {"loss": found["eval_loss"]})


@pytest.mark.parametrize(
    ("predicted", "f1"),
    [
        ("O B-LOC I-LOC I-LOC", 1.0),  # across two parts of the sentence
        ("O I-LOC I-LOC I-LOC", 1.0),  # an entity may begin with I, as for conlleval
        ("O B-LOC I-LOC O", 0.0),
        ("O B-LOC I-PER I-LOC", 0.0),
        ("O B-LOC B-LOC I-LOC", 0.0),
        ("O O O O", 0.0),
    ],
)
def test_entities_are_right_as_a_whole(written, tokenizer, predicted, f1):
    corpus = corpus_of(written, "The/O Redondo/B-LOC Redondo/I-LOC walked/I-LOC")
    arrays, counts = features(corpus, tokenizer, 6)
    assert counts["split"] == 1
    found = metrics(corpus, arrays, logits_of(arrays, predicted), 8)
    assert found["f1"] == f1


@pytest.mark.long
@pytest.mark.shared_data
def test_all_words_of_wnut17_are_read_and_kept(shared_data, written):
    folder = shared_data / "ner" / "wnut17"
    tokenizer = FullTokenizer(spm_model_file=str(shared_data / "spm" / "30k-clean.model"))
    lines = {}
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        content = (folder / name).read_text(encoding="utf-8")
        wanted = [line.split("\t") for line in content.split("\n") if line.strip()]
        corpus = word_files.read(str(folder / name))
        lines[name] = len(corpus.lines)
        assert [[word.text, word.label] for word in corpus.words] == wanted
        labels = sorted({label for _, label in wanted}, reverse=True)
        arrays = task(tokenizer, 32, labels).features(corpus)
        ids = arrays["label_ids"][arrays["label_mask"] > 0]
        text = word_files.with_labels(corpus, [labels[id_] for id_ in ids])
        assert text == re.sub(r"(?m)^[ \t]+$", "", content)
    assert sorted(lines.values()) == [16742, 24681, 66124]
