# SPDX-License-Identifier: Apache-2.0
"""`ModelProto`, the protocol buffer in the file of a SentencePiece model.

SentencePiece comes with such a class, which works only with the newest protobuf. Apache Beam and
earlier releases of TensorFlow need an older one, and this class works with all of them. It names
the fields that this package uses; the others stay as they are when a model is written again.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PIECE_TYPES = ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "UNUSED", "BYTE")
_MODEL_TYPES = ("UNIGRAM", "BPE", "WORD", "CHAR")


def _add_enum(message, name, values):
    enum = message.enum_type.add(name=name)
    for number, value in enumerate(values, 1):
        enum.value.add(name=value, number=number)


def _add_field(message, number, name, kind, default=None, *, type_name=None, is_repeated=False):
    message.field.add(
        name=name,
        number=number,
        type=getattr(_Field, f"TYPE_{kind}"),
        type_name=type_name,
        label=_Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL,
        default_value=default,
    )


def _model_proto():
    file = descriptor_pb2.FileDescriptorProto(
        name="albert_tf/sentencepiece_model.proto", package="albert_tf"
    )
    model = file.message_type.add(name="ModelProto")
    part = ".albert_tf.ModelProto."
    _add_field(model, 1, "pieces", "MESSAGE", type_name=f"{part}Piece", is_repeated=True)
    _add_field(model, 2, "trainer_spec", "MESSAGE", type_name=f"{part}Trainer")
    _add_field(model, 3, "normalizer_spec", "MESSAGE", type_name=f"{part}Normalizer")
    # In the range that SentencePiece leaves to others: it takes no notice of this field.
    _add_field(model, 1000, "clean_up", "BYTES")

    piece = model.nested_type.add(name="Piece")
    _add_enum(piece, "Type", _PIECE_TYPES)
    _add_field(piece, 1, "piece", "STRING")
    _add_field(piece, 2, "score", "FLOAT")
    _add_field(piece, 3, "type", "ENUM", "NORMAL", type_name=f"{part}Piece.Type")

    trainer = model.nested_type.add(name="Trainer")
    _add_enum(trainer, "ModelType", _MODEL_TYPES)
    _add_field(trainer, 3, "model_type", "ENUM", "UNIGRAM", type_name=f"{part}Trainer.ModelType")
    _add_field(trainer, 24, "treat_whitespace_as_suffix", "BOOL", "false")
    _add_field(trainer, 35, "byte_fallback", "BOOL", "false")
    _add_field(trainer, 40, "unk_id", "INT32", "0")

    normalizer = model.nested_type.add(name="Normalizer")
    _add_field(normalizer, 1, "name", "STRING")
    _add_field(normalizer, 2, "precompiled_charsmap", "BYTES")
    _add_field(normalizer, 3, "add_dummy_prefix", "BOOL", "true")
    _add_field(normalizer, 4, "remove_extra_whitespaces", "BOOL", "true")
    _add_field(normalizer, 5, "escape_whitespaces", "BOOL", "true")

    pool = descriptor_pool.DescriptorPool()  # of its own: names clash with nobody's
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("albert_tf.ModelProto"))


ModelProto = _model_proto()
