# SPDX-License-Identifier: Apache-2.0
"""`ModelProto` reads and writes the same bytes as the class that SentencePiece comes with."""

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.sentencepiece_proto import ModelProto
from tests import GOLDEN

MODELS = sorted((GOLDEN / "tokenization").glob("*.model"))


def _fields(proto):
    """Values, or defaults, of the fields that ModelProto names."""
    named = [*ModelProto.Trainer.DESCRIPTOR.fields_by_name]
    trainer = {name: getattr(proto.trainer_spec, name) for name in named}
    named = [*ModelProto.Normalizer.DESCRIPTOR.fields_by_name]
    normalizer = {name: getattr(proto.normalizer_spec, name) for name in named}
    return trainer, normalizer, [(p.piece, p.score, p.type) for p in proto.pieces]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_model_has_the_same_fields_and_bytes(path):
    content = path.read_bytes()
    ours, theirs = ModelProto.FromString(content), sentencepiece_model_pb2.ModelProto()
    theirs.ParseFromString(content)
    assert _fields(ours) == _fields(theirs)
    ours.pieces[3].score = theirs.pieces[3].score = -1.5
    theirs.ParseFromString(ours.SerializeToString())
    changed = sentencepiece_model_pb2.ModelProto.FromString(content)
    changed.pieces[3].score = -1.5
    assert theirs == changed  # no field is lost


def test_defaults_and_enums_are_the_same():
    theirs = sentencepiece_model_pb2.ModelProto
    assert _fields(ModelProto()) == _fields(theirs())
    assert sorted(ModelProto.Piece.Type.items()) == sorted(theirs.SentencePiece.Type.items())
    kinds = sentencepiece_model_pb2.TrainerSpec.ModelType
    assert sorted(ModelProto.Trainer.ModelType.items()) == sorted(kinds.items())
