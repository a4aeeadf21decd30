# SPDX-License-Identifier: Apache-2.0
# The names of __init__.py for type checkers and editors; a test compares both.
from albert_tf import checkpoints as checkpoints
from albert_tf.api.load import load as load
from albert_tf.api.loaded import Loaded as Loaded
from albert_tf.config import AlbertConfig as AlbertConfig
from albert_tf.errors import UserError as UserError
from albert_tf.model import heads as heads
from albert_tf.model.encoder import AlbertModel as AlbertModel
from albert_tf.model.heads import ClassificationModel as ClassificationModel
from albert_tf.model.heads import MultipleChoiceModel as MultipleChoiceModel
from albert_tf.model.heads import PretrainingModel as PretrainingModel
from albert_tf.model.heads import SquadV1Model as SquadV1Model
from albert_tf.model.heads import SquadV2Model as SquadV2Model
from albert_tf.model.heads import TokenClassificationModel as TokenClassificationModel
from albert_tf.model.optimization import LAMB as LAMB
from albert_tf.model.optimization import AdamW as AdamW
from albert_tf.model.optimization import Muon as Muon
from albert_tf.model.optimization import PolynomialDecayWithWarmup as PolynomialDecayWithWarmup
from albert_tf.text.tokenization import FullTokenizer as FullTokenizer

__version__: str
