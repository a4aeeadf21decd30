# SPDX-License-Identifier: Apache-2.0
"""Short texts in several languages, and SentencePiece models that are trained on them."""

import unicodedata

from albert_tf import vocabulary_record
from albert_tf.options import SentencePiece
from albert_tf.text import sentencepiece_training
from albert_tf.text.clean_up import CleanUp

TEXTS = {
    "russian": """\
Мой дедушка каждое утро поливает ёлку и яблони в саду.
Она ещё не знает, какой поезд идёт в её город.
Твой чай остывает, а мой уже совсем холодный.
Зимой день короткий, и мы читаем при свете лампы.
Учитель объясняет новый урок, и ученики слушают его.
Старый дом стоит у реки, за ним растёт густой лес.
Дети играют во дворе, пока не начинается дождь.
Мы купили свежий хлеб, молоко, сыр и зелёный лук.
Этот музей открыт каждый день, кроме понедельника.
Кот спит на подоконнике, и солнце греет его шерсть.""",
    "greek": """\
Ο παππούς ποτίζει κάθε πρωί τα δέντρα στον κήπο του.
Η γιαγιά μαγειρεύει φακές και ζυμώνει ψωμί το Σάββατο.
Το τρένο φτάνει αργά, γιατί έχει χιονίσει στα βουνά.
Τα παιδιά παίζουν στην αυλή μέχρι να αρχίσει η βροχή.
Ο δάσκαλος εξηγεί το μάθημα και οι μαθητές τον ακούν.
Το παλιό σπίτι βρίσκεται δίπλα στο ποτάμι, κοντά στο δάσος.
Αγοράσαμε φρέσκο γάλα, τυρί, ελιές και πράσινα μήλα.
Το μουσείο είναι ανοιχτό κάθε μέρα εκτός από τη Δευτέρα.
Η γάτα κοιμάται στο παράθυρο και ο ήλιος τη ζεσταίνει.
Τον χειμώνα διαβάζουμε βιβλία δίπλα στο τζάκι.""",
    "arabic": """\
يسقي جدي الأشجار في الحديقة كل صباح.
تطبخ جدتي العدس وتخبز الخبز يوم السبت.
وصل القطار متأخرا لأن الثلج سقط على الجبال.
يلعب الأطفال في الساحة حتى يبدأ المطر.
يشرح المعلم الدرس الجديد والتلاميذ يستمعون إليه.
يقع البيت القديم قرب النهر وخلفه غابة كبيرة.
اشترينا الحليب والجبن والزيتون والتفاح الأخضر.
المتحف مفتوح كل يوم ما عدا يوم الاثنين.
تنام القطة قرب النافذة والشمس تدفئها.
كَتَبَ الوَلَدُ رِسَالَةً إلى أُمِّهِ.""",
    "chinese": """\
爷爷每天早上在花园里给苹果树浇水。
奶奶星期六煮扁豆汤，还做面包给大家吃。
孩子们早上在花园里玩，奶奶每天早上煮扁豆汤。
爷爷星期一给大家买新鲜的牛奶和面包。
火车来晚了，因为山上下了一场大雪。
孩子们在院子里玩，一直玩到下雨才回家。
老师讲解新的课文，学生们认真地听。
那座旧房子在河边，后面有一片树林。
我们买了新鲜的牛奶、奶酪、橄榄和青苹果。
这个博物馆除了星期一每天都开放。
猫在窗边睡觉，太阳晒着它的毛。
请按 Enter 键保存文件，再打开 File 菜单 看看 Python 版本。""",
    "english": """\
My grandfather waters the apple trees in the garden every morning.
She does not know yet which train goes to her town.
The tea is getting cold, and mine is cold already.
In winter the days are short, and we read by the light of a lamp.
The teacher explains a new lesson, and the pupils listen.
The old house stands by the river, with a thick wood behind it.
The children play in the yard until it begins to rain.
We bought fresh bread, milk, cheese and a café crème.
The museum is open every day except on Mondays.
The cat sleeps on the window sill, and the sun warms its fur.""",
}


LANGUAGE_LINES = [
    "İPTAL SIRA ILIK İnce Iğdır I\u0307 I\u0323\u0307 I\u0301\u0307 i ı İI Iİ",
    "I\u0300 J\u0303 Į\u0301 Ì Í Ĩ Į Ì I\u0323\u0301",
    "𝐈 ℑ Ⅰ Ｉ İ\u0323 ΟΔΟΣ I\u0345\u0307 J\u0328\u0301 İ\u0307 I",
    "\u0307I I \u0307 J\u0301I\u0307",
    "한국어 \u1112\u1161\u11ab Tiếng Việt が か\u3099 नमस्ते हिन्दी కంప్యూటర్ ภาษาไทย",
    "می\u200cخواهم ﻻ ½ １２ ﬁ \u00a8 a\u200bb",
    "x<url> <url>y [MASK] <0x41> ÅÅ 1,2 12,345",
]
# A mark separates the next one from its letter if it forms no character with it. Decomposed,
# a vowel sign of Arabic comes before the hamza; then marks of Latin, Greek, Cyrillic and Sinhala.
REORDERED = [
    "\u0623\u064f\u0648\u0644 \u0623\u064f\u0644\u0628\u0650\u062b",
    "s\u0330\u0341\u033e f\u0323\u0302 e\u0323\u0302\u0330 o\u0327\u0302\u0369 \u1ed9\u031b",
    "\u03b1\u0313\u0323\u0301 \u0438\u0323 \u0dd9\u0dcf\u0dca\u0323 \u0dcf\u0323\u0dca",
    "\u1f64\u03a3\u00bd \u03a3\u03a3 \u1f64\u0301\u03a3\u0345. \u0391\u03a3\u1f64",  # final sigmas
]
LANGUAGE_SETTINGS = [
    {"do_lower_case": lower, "strip_accents": strip, "casing_language": language}
    for lower, strip, language in [
        *((True, False, "tr"), (True, True, "az"), (True, False, "lt"), (True, True, "lt")),
        (False, False, "other"),
    ]
]


def write_model(path, text, strip_accents=True):
    """Trains a SentencePiece model on a text of lines; returns the path (str) of the file."""
    lines = CleanUp(strip_accents=strip_accents).lines(text.split("\n"))
    characters = len(set("".join(lines)))
    options = SentencePiece(vocab_size=characters + 22, character_coverage=1.0)  # few longer pieces
    path.write_bytes(sentencepiece_training.train(lines, options))
    return str(path)


def model_of_letters(path, settings, **options):
    """Trains a model that has all letters of the lines above, and records its clean-up.

    `settings` is one of LANGUAGE_SETTINGS, the options are those of SentencePiece; the CleanUp is
    returned.
    """
    rule = options.get("normalization_rule_name", "nmt_nfkc")
    decomposes = settings["strip_accents"] or rule != "identity"
    cleaning = CleanUp(**settings, decomposes=decomposes)
    lines = cleaning.lines([*LANGUAGE_LINES, *REORDERED] * 3)
    text = "".join(lines)
    characters = set(text if rule == "identity" else unicodedata.normalize("NFKC", text))
    size = len(characters) + 15 + 256 * options.get("byte_fallback", False)
    options = SentencePiece(vocab_size=size, character_coverage=1.0, **options)
    model = sentencepiece_training.train(lines, options)
    path.write_bytes(vocabulary_record.add(model, cleaning))
    return cleaning
