# SPDX-License-Identifier: Apache-2.0
"""What text loses: counts, limits and what is said."""

import collections
import json
import pickle
import unicodedata

import pytest

from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import sentencepiece_training, text_losses
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.text_losses import Losses
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN
from tests.errors import assert_names, names

RELEASED = GOLDEN / "tokenization" / "spm_uncased.model"


def counted(lines, clean_up=CleanUp(), rule="nmt_nfkc"):  # noqa: B008 (it is frozen)
    return Losses(clean_up, sentencepiece_training.table_of(rule)).count(lines)


def said(lines, *args, unknown=(), **values):
    counts = counted(lines, *args, **values)
    return list(text_losses.warnings(counts, collections.Counter(unknown)))


def each(form):
    """Twelve lines: a form with a number and a letter in it."""
    return "\n".join(form.format(n, "abcdefghijkl"[n]) for n in range(12))


MARKS = {
    "パンダが": {"marks KATAKANA": 2, "marks HIRAGANA": 1},  # pa, da; ga
    "హిందీ": {},  # vowel signs have no combining class
    "ที่": {"marks THAI": 1},
    "नमस्ते": {"marks DEVANAGARI": 1},
    "Tiếng": {"marks LATIN": 2},
    "שָׁ": {"marks HEBREW": 2},
    "한국어": {},
    "İ ı": {"marks LATIN": 1},
    "বাংলা ক্ষ ড়": {"marks BENGALI": 2},
    "བོད་སྐད": {"marks TIBETAN": 1},
    "كُرْدِيّ أُ": {"marks ARABIC": 6},
    "Ẹ̀kọ́": {"marks LATIN": 4},
    "Ἀρχὴ ᾧ": {"marks GREEK": 5},
    "ђћ їй": {"marks CYRILLIC": 2},
    "а\u0483": {"marks CYRILLIC": 1},
    "ガー々": {"marks KATAKANA": 1},
}


@pytest.mark.parametrize("text", MARKS)
def test_marks_are_counted_by_script(text):
    for form in ("NFC", "NFD"):
        counts = counted([unicodedata.normalize(form, text)])
        found = {key: n for key, n in counts.items() if key.startswith("marks ")}
        if form == "NFC":
            assert found == MARKS[text]
            assert all(counts["letters " + key.removeprefix("marks ")] for key in found)
        assert sum(found.values()) == sum(MARKS[text].values())
    assert not any(key.startswith("marks ") for key in counted([text], CleanUp(True, False)))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("パンダが ビルで",
         "3 marks of 5 KATAKANA ... 2 marks of 2 HIRAGANA ... --strip_accents=false"),
        ("क्षमा नमस्ते", "2 ... DEVANAGARI ... --strip_accents=false"),
        ("Tiếng Việt có dấu", "LATIN ... --strip_accents=false"),
        ("İptal SIRA ılık", "of 13 LATIN ... --casing_language=tr"),
        ("می\u200cخواهم", "1 of 8 ... U+200C ... --normalization_rule_name=nfkc"),
        ("世界…你好", "1 of 5 ... U+2026 ... --normalization_rule_name=identity"),
        ("[MASK] a [SEP] b [SEP]", "[SEP] 2 times, [MASK] 1 times"),
        ('<doc id="1">\na\n</doc>', "2 of 3 lines ... --input_format=jsonl"),
        ("a&nbsp;b <br/>", "1 of 1 lines ... HTML"),
        ('{"text": "one"}\n{"text": "two"}', "2 of 2 lines are JSON ... --input_format=jsonl"),
        ('["one", "two"]', "1 of 1 lines are JSON ... --input_format=jsonl"),
        ('[\n  "one",\n  "two",\n  "three"\n]', "2 of 5 lines are JSON"),
        ("T25lIGRheSBhIG1hbiBjYW1lIHRvIHRoZSBob3VzZS4=\nb", "1 of 2 lines ... codes ... Base64"),
        (r"\u4f60\u597d", "1 of 1 lines ... codes ... decode"),
        ("na%C3%AFve", "1 of 1 lines ... codes ... decode"),
        ("na=C3=AFve", "1 of 1 lines ... codes ... decode"),
        (r"It went on.\nThen it was late.", "1 of 1 lines ... codes ... decode"),
        ("b'so it is'", "1 of 1 lines ... codes ... decode"),
        ('{\n  "text": "one two",\n  "id": 1\n}', "2 of 4 lines are JSON"),
        ("\x1b$B$3$s", "1 of 1 lines ... codes ... decode"),
        ("~{NRC:~} +AOk-", "1 of 1 lines ... codes ... decode"),
        (each("{}\t{}"), r"12 of 12 lines ... columns ... 1 '\t' in each ... cut -f 2"),
        ("text,label\n" + each("a film, {1}d,{0}"), "13 of 13 lines ... 1 ',' in each ... jsonl"),
        (each('"a film, {}, seen",good'), "12 of 12 lines ... columns ... 1 ',' in each"),
        (each("one ||| {}"), "12 of 12 lines ... columns ... 3 '|' in each"),
        (each('{},"one, {},two",0'), "12 of 12 lines ... columns ... 2 ',' in each"),
        (each("{};A film {};0"), "12 of 12 lines ... columns ... 2 ';' in each"),
        (each("12.03.21, 12:3{} - Bob: so {}"), "12 of 12 lines begin ... '0.0.0, 0:0 - '"),
        (each("__label__{} {}"), "12 of 12 lines begin ... '_'"),
        (each("{{'text': '{} {}'}}"), "12 of 12 lines begin ... {'"),
        (each("> so {1}{0}"), "12 of 12 lines begin ... '> '"),
        (each("so {1} __label__{0}"), "12 of 12 lines end ... '_0'"),
        ("1\n00:00:01,500 --> 00:00:02,000\none", "2 of 3 lines ... times ... .srt"),
        ("00:01.500 --> 00:02.000 align:start\none", "1 of 2 lines ... times ... .srt"),
        ("[00:12.00]one", "1 of 1 lines ... times"),
        ("Les Ã©lÃ¨ves", "1 of 1 lines ... decoded wrongly ... encoding"),
        ("ÐœÐ¾Ð¹", "1 of 1 lines ... decoded wrongly ... encoding"),
        ("donâ€™t", "1 of 1 lines ... decoded wrongly ... encoding"),
        ("Ïðèâåò, ìèð", "1 of 1 lines ... decoded wrongly"),
        ("baþarýsýz", "1 of 1 lines ... decoded wrongly"),
        ("bir düðme", "1 of 1 lines ... decoded wrongly"),
        ("gdy by³o", "1 of 1 lines ... decoded wrongly"),
        ("na\ufffdve", "1 of 1 lines ... decoded wrongly"),
        ("on\0e", "1 of 1 lines ... null bytes"),
        ("an\u00adother", "1 of 8 characters ... invisible ... U+00AD"),
        ("\u202bone\u202c", "2 of 5 characters ... invisible ... U+202B"),
        ("ba?ar?s?z", "1 of 1 lines ... decoded wrongly"),
        ("???? ?? ?????", "1 of 1 lines ... decoded wrongly"),
        ("rock´n´roll", "U+00B4 ... 2 times ... --normalization_rule_name=identity"),
        ("an exam\u00ac\nple", "1 of 2 lines ... middle of a word"),
        ("\uf0b7 one", "1 of 1 lines ... private use"),
        ("an exam-\nple of it", "1 of 2 lines ... middle of a word"),
        ("He went to the old house of his uncle\nwho lived in the town at the river, in\nwhich "
         "there were few other people then\n" * 5, "10 of 15 ... --input_format=documents"),
        ("\u1031\u1014", "1 of 1 lines ... Zawgyi ... Unicode"),
        ("the new@@ er one", "1 of 1 lines ... tokens ... @@"),
        ("a low @-@ cost film", "1 of 1 lines ... tokens"),
        ("The_DT dog_NN barks_VBZ", "1 of 1 lines ... parts of speech"),
        ("the/DET dog/NOUN", "1 of 1 lines ... parts of speech"),
        ("我/r 爱/v 北京/ns 。/w", "1 of 1 lines ... parts of speech"),
        ("나/NP+는/JX 학생/NNG+이/VCP", "1 of 1 lines ... parts of speech"),
        ("the</w> qu ick</w>", "1 of 1 lines ... tokens"),
        ("un ##believ ##able", "1 of 1 lines ... tokens"),
        ("usually , he would go .", "1 of 1 lines ... tokenizers"),
        ("`` i do n't know , '' he said", "1 of 1 lines ... tokenizers"),
        (r"One.\n\nTwo.", "1 of 1 lines ... codes"),
        ("a <|endoftext|> <eos>", "<|endoftext|> 1 times, <eos> 1 times"),
        ('<text bytes="5">a', "1 of 1 lines ... markup"),
        ("see [[Link|the link]]", "1 of 1 lines ... markup ... wiki"),
        ("see [this](https://a.org)", "1 of 1 lines ... markup"),
        (r"as \cite{a} says", "1 of 1 lines ... markup ... LaTeX"),
        (r"a caf\'{e}", "1 of 1 lines ... markup ... LaTeX"),
        ("<w:t>a</w:t>", "1 of 1 lines ... markup"),
        ("<CHAPTER ID=1>", "1 of 1 lines ... markup"),
        ("## So", "1 of 1 lines ... markup ... Markdown"),
        ("a **b c** d", "1 of 1 lines ... markup ... Markdown"),
        ("see [this](docs/a.md)", "1 of 1 lines ... markup ... Markdown"),
        (r"so $\alpha_1 + 1$ is", "1 of 1 lines ... markup ... LaTeX"),
        ("吾輩《わがはい》は", "1 of 1 lines ... markup"),
        ("d&eacute;j&#xe0;", "1 of 1 lines ... markup ... HTML"),
        ("a\na\nb\na", "2 of 4 lines ... 'a' 3 times ... --drop_duplicates"),
    ],
)  # fmt: skip
def test_a_loss_is_said_with_a_remedy(text, names):
    assert_names("\n".join(said(text.split("\n"))), names)


KEPT = CleanUp(True, False)  # accents


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("\tACGT", ()),
        ("see a.org/watch?v=a. What??? Yes! He did?\n你好吗?我很好 ? ?", ()),
        ("القرآن \u06dd می\u200cخواهم 👨\u200d👩", (KEPT, "nfkc")),
        ("i saw him in London today and we had a very long talk about it.", ()),
        ("all of this text was lower-cased before\nas that of many old corpora\nwas too", ()),
        ("Rome\nfilm\nthe\ncat\ndog", ()),
        ("queries of people\nhow to\nwhat is this for\nRome\nthe longest words of it\nfilm", ()),
        ("see a/an and/or user_name @home", ()),
        ("and/or his/her she/he\nset $HOME\\bin to $PATH\ny = x[i](a.b)", ()),
        ("# a = b ** c; f(**d); e[0](f) $5 and $6\nif a < b = c > d: he/she", ()),
        (each("वह {1}|"), (KEPT, "nfkc")),
        ("MKVLAAGIVPLLLAACGGSTEEKKRRWYHQNDM" * 3, ()),
        ('"Well," he said, "50% = 5/10 [1]," and left C:\\users.', ()),
        ("3,000 of them,\" he said,' 1,000,000 times, and “yes,” too", ()),
        ("你好,世界", ()),
        (each("你好,世界{1}"), ()),
        (each("so {1}, such {0} as 3,000 of {1}; and"), ()),
        (each("- so {1}, or\n* {1}\n“{1}”\n({0}) {1}\n{0} {1}\n{0}. {1}\n— {1}{1}"), ()),
        ("great phone,fast delivery,love it\ndef f(a,b):\n" + each("so,{1},{1}\nand {1}"), ()),
        ("CC1=CC=CC=C1C(=O)N", ()),
        (
            "the rain has come again tonight\nand washed the garden clean of light\n"
            "so that the silent roses sleep\nbeneath the secrets that they keep\nThe end",
            (),
        ),
        ("Ísland er eyja, sem þýðir að hún er í sjó\nAlþýðan kom í Zürich, það var à la", (KEPT,)),
        ("été «à l'œuvre», naïve; ¿Él? ¡Ó! açúcar à São, 5 m³/h und Größe", (KEPT,)),
        ("Łódź, mógł być. Đã có ở Việt Nam", (KEPT, "identity")),
        ("I was going to-\nWhat?\nI said I was-", ()),
        ("STRASSE GRÖẞE", (KEPT,)),
        ("In 1999 he paid $5 at 12:30. “Ü–„«", ()),
        ("Spaß“, sagte er – “ÉTÉ” «À», NIÑO’S", (KEPT,)),
        ("<url> @user <3 AT&T; a well-\u200bknown <unk", (KEPT, "nfkc")),
        ("\u1014\u1031 \u1000\u1031", (KEPT,)),
        ("A plain text, with “quotes” and 3 < 4 [1].", ()),
        ("C'est la vie, à l'heure de la pause.", ()),
        ("мой ёж ест в лесу много еды каждый день и спит", ()),
        ("パンダが ビルで", (KEPT,)),
        ("İptal SIRA ılık", (CleanUp(True, False, casing_language="tr"),)),
        ("می\u200cخواهم", (KEPT, "nfkc")),
        ("世界，你好。（１）ﾊﾛｰ", (KEPT,)),
        ("世界…你好。" + "很好" * 9, (KEPT,)),  # one sign of 24 is changed
        ("½ ﬁ ① می\u200cخواهم", (CleanUp(True, False, decomposes=False), "identity")),
        ("한국어로 번역한 글", (KEPT,)),
    ],
)
def test_nothing_is_said_without_a_loss(text, given):
    assert said([*text.split("\n"), ""], *given) == []


@pytest.mark.parametrize(
    "text, remedy",
    [("한국어로 번역한 글", "--strip_accents=false"), ("١٢٣ ① ②", "--normalization_rule_name")],
)
def test_the_remedy_for_characters_that_are_taken_apart(text, remedy):
    sentence = " ".join(said([text], CleanUp(), rule="identity"))
    assert remedy in sentence


def test_unknown_letters_are_counted_by_script():
    lines = ["abc " * 10, "한국어 한국"]
    unknown = {"▁한국": 2, "어": 1, "☃": 7}
    (sentence,) = said(lines, unknown=unknown)
    assert_names(sentence, "5 of 5 HANGUL")
    assert said([*lines, "abc " * 200], unknown=unknown) == []  # a few foreign words
    assert_names(*said(["\u0587"], unknown={"\u0565\u0582": 1}), "2 of 2 ARMENIAN")
    # An unknown word of WordPiece has no text of its own.
    assert said(lines, unknown={"[UNK]": 9}) == []


def test_scripts_are_in_one_sentence_if_they_are_a_part_of_the_text():
    """A few foreign words in English text are no warning, but an entry of the summary."""
    foreign = ["パンダ", "กี่", "क्ष", "שָׁ", "ខ្មែ", "ཀི", "ắ"]
    unknown = dict.fromkeys(foreign, 1)
    marks, letters = said(foreign, unknown=unknown)
    for sentence in (marks, letters):
        assert_names(sentence, "KATAKANA ... THAI ... DEVANAGARI ... HEBREW ... KHMER ... TIBETAN")
    lines = [*foreign, "plain text " * 200]
    assert said(lines, unknown=unknown) == []
    summary = text_losses.as_json(counted(lines), collections.Counter(unknown))
    assert len(summary["marks_dropped"]) == len(summary["unknown_letters"]) == len(foreign)


@pytest.mark.parametrize(
    "counts",
    [
        {"letters THAI": 100, "marks THAI": 1},
        {"letters LATIN": 100, "marks LATIN": 15},
        {"letters LATIN": 199, "letters THAI": 1, "marks THAI": 2},  # a hundredth of the text
        {"letters HANGUL": 100, "unknown": 3},
        {"letters LATIN": 100, "turkish": 1},
        {"characters": 1000, "changed U+200C to ": 1},
        {"characters": 1000, "invisible U+202B": 2},
        {"characters": 100, "changed U+FF08 to (": 5},
        {"lines": 1000, text_losses.MARKUP: 1},
        {"lines": 100, "are JSON": 10},
        {"lines": 20, "begin with '0 '": 13},
        {"lines": 10, "begin with '0 '": 9},
        {"lines": 100, "divided": 10},
        {"lines": 100, "capitals": 3, "wrapped": 29},
        {"lines": 10, "capitals": 3, "wrapped": 9},
        {"lines": 100, "wrapped": 30, "capitals": 2},
        {"lines": 100, "repeated": 10},
    ],
)
def test_limits(counts):
    """Nothing is said yet, but with one more of the last count."""
    *_, last = counts
    for more in (0, 1):
        found = collections.Counter(counts | {last: counts[last] + more})
        unknown = collections.Counter({"한": found.pop("unknown", 0)})
        assert len([*text_losses.warnings(found, unknown)]) == more


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        ([30, 30, 30], 2),
        ([29, 29, 29], 0),  # of a narrow column
        ([30, 20, 30, 20, 30, 20, 30, 30], 4),  # the next word has no room after 4 of 7
        ([30, 20, 30, 20, 30], 0),  # after 2 of 4, as in verses
    ],
)
def test_lines_that_go_on_end_at_an_edge(lengths, count):
    assert counted(["one " + "a" * (length - 4) for length in lengths])["wrapped"] == count


@pytest.mark.parametrize("number", [2, 3])
def test_what_few_lines_have_in_common_is_not_kept(number):
    lines = [f"{char}\tx" if n < number else char for n, char in enumerate("abcdefghijklmnopqrst")]
    assert any(key.startswith("have columns") for key in counted(lines)) == (number == 3)


def test_a_sign_that_loses_its_mark_is_changed():
    counts = counted(["a ≠ b ´"])
    assert +counts == {"characters": 4, "letters LATIN": 2, "lines": 1} | {
        "changed U+2260 to =": 1, "changed U+00B4 to  ": 1
    }  # fmt: skip
    assert not any("changed" in key for key in counted(["≠"], CleanUp(True, False)))


def test_special_pieces_that_become_ids(tmp_path):
    """Of a vocabulary of another tool; control pieces never stand in text."""
    proto = ModelProto.FromString(RELEASED.read_bytes())
    proto.pieces[4].type = ModelProto.Piece.Type.USER_DEFINED
    (tmp_path / "a.model").write_bytes(proto.SerializeToString())
    for lower, number in ((False, 1), (True, 0)):
        tokenizer = FullTokenizer(spm_model_file=str(tmp_path / "a.model"), do_lower_case=lower)
        counts = Losses.of(tokenizer).count(["a [MASK] b"])
        assert counts["special_ids [MASK]"] == number == 1 - counts["special_text [MASK]"]


def test_wordpiece_drops_marks_with_lower_casing(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nक\n")
    for lower, marks in ((True, 1), (False, 0)):
        tokenizer = FullTokenizer(vocab_file=str(path), do_lower_case=lower)
        meter = pickle.loads(pickle.dumps(Losses.of(tokenizer)))
        assert meter.count(["क्ष"])["marks DEVANAGARI"] == marks


@pytest.mark.parametrize(
    ("pieces", "flags"),
    [("Die ##Ö", "--do_lower_case=false ... --strip_accents=false"), ("die", "")],
)
def test_pieces_that_no_text_has_are_said(tmp_path, pieces, flags):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces.split()]), "utf-8")
    tokenizer = FullTokenizer(vocab_file=str(path))
    sample = text_losses.Sample(tokenizer)
    tokenizer.tokenize("die")
    said = "\n".join(sample.warnings())
    assert names(said, f"{path} ... 'Die' ... {flags}") if flags else not said
    kept = FullTokenizer(vocab_file=str(path), do_lower_case=False)
    assert list(text_losses.unreachable(kept)) == []


@pytest.mark.parametrize("number", [1, 2])
def test_few_pieces_that_no_text_has_are_not_said(number, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[UNK]", *"ABC"[:number], *map(str, range(50 - number))]))
    said = [*text_losses.unreachable(FullTokenizer(vocab_file=str(path)))]
    assert len(said) == number - 1


def test_counts_of_parts_add_up():
    lines = ["パンダ [MASK]", "½ <p>", "a"]
    whole = counted(lines)
    assert sum((counted([line]) for line in lines), collections.Counter()) == +whole
    found = text_losses.as_json(whole, collections.Counter({"한": 2}))
    assert json.loads(json.dumps(found)) == found == {
        "letters": {"KATAKANA": 3, "LATIN": 6},
        "marks_dropped": {"KATAKANA": 2},
        "characters_changed": {"U+00BD to 1⁄2": 1},
        "unknown_letters": {"HANGUL": 2},
        "special_pieces": {"[MASK]": 1},
        "lines_with_markup": 1,
        "lines_in_other_forms": {},
        "lines_repeated": 0,
    }  # fmt: skip


def test_a_sample_of_the_first_texts():
    tokenizer = FullTokenizer(spm_model_file=str(RELEASED))
    sample = text_losses.Sample(tokenizer)
    for text in ("నమస్తే క్ష", "నమస్తే క్ష", "a b"):
        tokenizer.encode_ids(text)
    marks, unknown = sample.warnings()
    assert_names(marks, "TELUGU ... --strip_accents=false")
    assert_names(unknown, "TELUGU ... train_sentencepiece.py")
    assert tokenizer.sample is None
    sample = text_losses.Sample(tokenizer)
    assert sample.warnings() == []  # the features exist
    for number in range(10_001):
        sample(f"a {number}")
    assert len(sample._texts) == 10_000


def test_numbers_of_rows_and_scores_are_no_texts():
    tokenizer = FullTokenizer(spm_model_file=str(RELEASED))
    sample = text_losses.Sample(tokenizer)
    for number in range(9):
        for text in (str(number), f"{number}.800", f"film {number}", f"so , {number} ."):  # of GLUE
            tokenizer.normalize(text)
    assert sample.warnings() == []
