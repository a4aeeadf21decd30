# SPDX-License-Identifier: Apache-2.0
"""The ALBERT encoder: embeddings, E -> H mapping, shared blocks, pooler.

Shapes:
    B batch, T sequence, E embedding, H hidden, N heads, D = H / N head size, I intermediate,
    V vocabulary, L layers.

Kernels are 2-D and biases 1-D, as in the original. So one line per variable is enough to read its
checkpoints, and the rank of a variable tells whether it decays. Products are computed on
[B * T, H], which is faster than on [B, T, H].
"""

import collections
import functools
import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import fused, recompute
from albert_tf.model.dropout import draw, dropout
from albert_tf.model.keras_model import ConfiguredModel, model_inputs, serializable


def gelu(x):
    """Gaussian error linear unit in its tanh approximation, which the released weights need."""
    # Products instead of a power: tf.pow takes longer than all the rest of the layer on a CPU. In
    # this form, TensorFlow recognizes it after a dense layer and lets oneDNN compute both at once.
    cubic = x + 0.044715 * (x * x * x)
    return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2.0 / math.pi) * cubic))


_ACTIVATIONS = {
    "gelu": gelu,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
    "": tf.identity,
}


def get_activation(name):
    """The activation named by a config's `hidden_act`, in upper or lower case."""
    return _ACTIVATIONS[name.lower()]


def truncated_normal(stddev):
    """Initialiser of kernels and tables: a normal distribution cut at two standard deviations."""
    return tf_keras.initializers.TruncatedNormal(stddev=stddev)


class Layer(tf_keras.layers.Layer):
    """A layer that holds float32 variables and computes in the policy's type.

    Casts are written out where they happen: layer norms, softmax and losses stay in float32
    under every precision.
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.built = True  # the constructors make the variables

    def variable(self, name, shape, initializer):
        """Adds a float32 variable whose name begins with the layer's, which HDF5 files need."""
        return self.add_weight(
            f"{self.name}/{name}",
            shape,
            dtype=tf.float32,
            initializer=initializer,
            experimental_autocast=False,
        )


class Linear(Layer):
    """x W + b on the last axis.

    Args:
        input_size: int, size of the last axis of the input.
        output_size: int, size of the last axis of the output.
        stddev: float, standard deviation of the kernel's truncated normal initialiser.
        use_bias: bool, whether to add b.
    """

    def __init__(self, input_size, output_size, stddev, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.kernel = self.variable("kernel", [input_size, output_size], truncated_normal(stddev))
        self.bias = self.variable("bias", [output_size], "zeros") if use_bias else None

    def tensors(self, uses=1):
        """Kernel in the computing type and bias (float32, or None), once for each use."""
        kernels = fused.copies(_read(self.kernel), uses, self.compute_dtype)
        return [(kernel, _read(self.bias)) for kernel in kernels]

    def call(self, x):
        kernel, bias = self.tensors()[0]
        y = _product(x, kernel)
        return y if bias is None else tf.nn.bias_add(y, tf.cast(bias, y.dtype))


def _product(x, kernel):
    return tf.matmul(tf.cast(x, kernel.dtype), kernel)


def _of_each_use(layers, uses):
    return list(zip(*(layer.tensors(uses) for layer in layers), strict=True))


def _read(variable):
    return None if variable is None else tf.convert_to_tensor(variable)


class LayerNorm(Layer):
    """Layer normalisation over the last axis, epsilon 1e-12, with float32 input and output."""

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.gamma = self.variable("gamma", [size], "ones")
        self.beta = self.variable("beta", [size], "zeros")

    def tensors(self, uses=1):
        """Scale and offset, float32, once for each use."""
        return [(_read(self.gamma), _read(self.beta))] * uses

    def call(self, x):
        return fused.layer_norm(tf.cast(x, tf.float32), *self.tensors()[0])


class Embeddings(Layer):
    """Sum of word, segment and position embeddings, normalised (section 3.1).

    Args:
        config: AlbertConfig.
        use_one_hot: bool, whether to look words up by a product with one-hot vectors, for TPUs.
    """

    def __init__(self, config, use_one_hot=False, **kwargs):
        super().__init__(**kwargs)
        size, stddev = config.embedding_size, config.initializer_range
        self.word = self.variable("word", [config.vocab_size, size], truncated_normal(stddev))
        self.token_type = self.variable(
            "token_type", [config.type_vocab_size, size], truncated_normal(stddev)
        )
        self.position = self.variable(
            "position", [config.max_position_embeddings, size], truncated_normal(stddev)
        )
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)
        self._use_one_hot = use_one_hot
        self._dropout = config.hidden_dropout_prob

    def _look_up(self, table, ids):
        if self._use_one_hot:
            return tf.matmul(tf.one_hot(ids, table.shape[0], dtype=table.dtype), table)
        return tf.gather(table, ids)

    def call(self, input_ids, token_type_ids, training=False):
        words = self._look_up(self.word, input_ids)  # [B, T, E]
        length = tf.shape(input_ids)[1]
        few = training and self.token_type.shape[0] <= 16 and not self._use_one_hot
        types = (_take_rows if few else self._look_up)(_read(self.token_type), token_type_ids)
        x = words + types + self.position[:length]
        return words, dropout(self.layer_norm(x), self._dropout, training)


@tf.custom_gradient
def _take_rows(table, ids):
    # The gradient is a product, since adding the gradients of all tokens into two rows is slow.
    def gradient(dy):
        chosen = tf.one_hot(tf.reshape(ids, [-1]), table.shape[0], dtype=dy.dtype)
        rows = tf.reshape(dy, [-1, table.shape[1]])
        return tf.matmul(chosen, rows, transpose_a=True), None

    return tf.gather(table, ids), gradient


class AttentionBlock(Layer):
    """Self-attention, projection, residual, layer norm."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        size, stddev = config.hidden_size, config.initializer_range
        self.query, self.key, self.value, self.output_dense = (
            Linear(size, size, stddev, dtype=self.dtype_policy) for _ in range(4)
        )
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)
        self._heads, self._head_size = config.num_attention_heads, config.head_size
        self._dropout = config.hidden_dropout_prob
        self._attention_dropout = config.attention_probs_dropout_prob

    def tensors(self, uses=1):
        """The tensors that `call` reads from the variables, once for each use."""
        dense = (self.query, self.key, self.value, self.output_dense)
        return _of_each_use((*dense, self.layer_norm), uses)

    def call(self, x, mask_adder, tensors=None, training=False, places=None):
        """Applies the block.

        Args:
            x: float tensor [B * T, H].
            mask_adder: float32 tensor [B, 1, 1, T], added to the logits of each key.
            tensors: one item of `tensors`, or None to read the variables.
            training: bool, whether dropout is on.
            places: int32 tensor [B, Q], the tokens to compute; None for all, so that Q = T.

        Returns:
            tensor of x's type [B * Q, H].
        """
        *inputs, (kernel, bias), norm = self.tensors()[0] if tensors is None else tensors
        length = mask_adder.shape[3] or tf.shape(mask_adder)[3]
        *low, residual = fused.copies(x, 4)
        queries = length
        if places is not None:
            queries = places.shape[1] or tf.shape(places)[1]
            low[0] = residual = _rows_at(residual, places, length)
        # Scale the query and not the logits: [B, N, Q, D] has fewer entries than [B, N, Q, T].
        scales = (1.0 / math.sqrt(self._head_size), 1.0, 1.0)
        query, key, value = (
            fused.split_heads(_product(x, kernel), bias, scale, size, self._heads)
            for x, (kernel, bias), scale, size in zip(
                low, inputs, scales, (queries, length, length), strict=True
            )
        )
        logits = tf.matmul(query, key, transpose_b=True)  # [B, N, Q, T]
        rate = self._attention_dropout
        keep = draw(logits, rate, training)
        weights = fused.masked_softmax(logits, mask_adder, keep, rate)
        context = fused.merge_heads(tf.matmul(weights, value))
        output = tf.matmul(context, kernel)
        keep = draw(output, self._dropout, training)
        return fused.add_norm(output, bias, residual, *norm, keep, self._dropout)


def _rows_at(x, places, length):
    """Rows of x [B * T, H] at places [B, Q] of their sequences of `length`: [B * Q, H]."""
    firsts = tf.range(tf.shape(places)[0])[:, tf.newaxis] * length
    return tf.gather(x, tf.reshape(firsts + places, [-1]))


class FeedForwardBlock(Layer):
    """Two dense layers with the activation between them, residual, layer norm."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        sizes, stddev = (config.hidden_size, config.intermediate_size), config.initializer_range
        self.intermediate = Linear(*sizes, stddev, dtype=self.dtype_policy)
        self.output_dense = Linear(*reversed(sizes), stddev, dtype=self.dtype_policy)
        self.layer_norm = LayerNorm(config.hidden_size, dtype=self.dtype_policy)
        self._activation = get_activation(config.hidden_act)
        self._dropout = config.hidden_dropout_prob

    def tensors(self, uses=1):
        """The tensors that `call` reads from the variables, once for each use."""
        return _of_each_use((self.intermediate, self.output_dense, self.layer_norm), uses)

    def call(self, x, tensors=None, training=False):
        """Transforms [B * T, H] to the same type and shape; `tensors` as in AttentionBlock."""
        inner, (kernel, bias), norm = self.tensors()[0] if tensors is None else tensors
        x, residual = fused.copies(x, 2)
        hidden = _product(x, inner[0])
        hidden = fused.bias_activation(hidden, inner[1], self._activation)
        output = tf.matmul(hidden, kernel)
        keep = draw(output, self._dropout, training)
        return fused.add_norm(output, bias, residual, *norm, keep, self._dropout)


@serializable
class AlbertModel(ConfiguredModel):
    """The ALBERT encoder (Lan et al., section 3.1).

    Call it with
        input_ids: int32 [B, T]; or a dict of these three, as a FullTokenizer returns;
        input_mask: [B, T], 1 for tokens, 0 for padding; all 1 if absent;
        token_type_ids: int32 [B, T], 0 for segment A, 1 for B; all 0 if absent;
        training: bool, whether dropout is on;
        positions: int32 [B, P] or None, the tokens whose sequence_output is needed. The last block
            computes only these and the first token.
    It returns a dict of float32 tensors:
        sequence_output [B, T, H], or [B, P, H] at the positions; pooled_output [B, H];
        encoder_outputs, a list of L x inner_group_num [B, T, H] that ends in sequence_output;
        embedding_output [B, T, E], before the E -> H mapping; word_embedding_output [B, T, E].

    Args:
        config: AlbertConfig.
        use_one_hot_embeddings: bool, whether to look words up by one-hot products, for TPUs.
        recompute: bool, whether the backward pass of training computes the activations of each
            block again, instead of keeping them. The results are the same.
    """

    def __init__(
        self,
        config: AlbertConfig,
        use_one_hot_embeddings: bool = False,
        recompute: bool = False,
        **kwargs: Any,
    ) -> None:
        options = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        super().__init__(config, options, **kwargs)
        self._recompute, policy = recompute, self.dtype_policy
        stddev, hidden = config.initializer_range, config.hidden_size
        self.embeddings = Embeddings(config, use_one_hot_embeddings, dtype=policy)
        self.embedding_hidden_mapping_in = None
        if config.embedding_size != hidden:
            self.embedding_hidden_mapping_in = Linear(
                config.embedding_size, hidden, stddev, dtype=policy
            )
        # Blocks of all parameter groups: Keras does not save layers in lists of lists.
        self.attention_blocks = [
            AttentionBlock(config, dtype=policy) for _ in config.blocks("attention")
        ]
        self.ffn_blocks = [FeedForwardBlock(config, dtype=policy) for _ in config.blocks("ffn")]
        self.pooler = Linear(hidden, hidden, stddev, dtype=policy)

    def call(
        self,
        input_ids: Any,
        input_mask: Any = None,
        token_type_ids: Any = None,
        training: Any = False,
        positions: Any = None,
    ) -> dict[str, Any]:
        given = input_ids
        if not isinstance(given, Mapping):
            names = "input_ids", "input_mask", "token_type_ids"
            given = dict(zip(names, (input_ids, input_mask, token_type_ids), strict=True))
        input_ids, input_mask, token_type_ids = model_inputs(given).values()
        input_ids = self._of_checked_length(input_ids)
        if input_mask is None:
            input_mask = tf.ones_like(input_ids, tf.float32)
        if token_type_ids is None:
            token_type_ids = tf.zeros_like(input_ids)
        # Only keys are masked, with -10000 instead of minus infinity: then a row without any token
        # still has finite weights, and float16 can hold the number.
        padding = 1.0 - input_mask
        mask_adder = padding[:, tf.newaxis, tf.newaxis, :] * -10000.0

        words, embedding_output = self.embeddings(input_ids, token_type_ids, training=training)
        places = None
        if positions is not None:
            places = tf.pad(tf.cast(positions, tf.int32), [[0, 0], [1, 0]])
        layer_outputs = self._encode(embedding_output, mask_adder, training, places)
        first_token = layer_outputs[-1][:, 0]  # [B, H]
        if positions is not None:
            layer_outputs[-1] = layer_outputs[-1][:, 1:]
        return {
            "sequence_output": layer_outputs[-1],
            "pooled_output": tf.tanh(tf.cast(self.pooler(first_token), tf.float32)),
            "encoder_outputs": layer_outputs,
            "embedding_output": embedding_output,
            "word_embedding_output": words,
        }

    def _blocks(self):
        """List of (attention, feed-forward), the two parts of each block, in order of use."""
        config = self.config
        attention = dict(zip(config.blocks("attention"), self.attention_blocks, strict=True))
        ffn = dict(zip(config.blocks("ffn"), self.ffn_blocks, strict=True))
        layers = [*zip(config.groups("attention"), config.groups("ffn"), strict=True)]
        inner = range(config.inner_group_num)
        return [(attention[a, j], ffn[f, j]) for a, f in layers for j in inner]

    def _encode(self, embedding_output, mask_adder, training, places):
        config = self.config
        *blocks, last = self._blocks()
        lengths = [tf.shape(embedding_output)[1]] * len(blocks)
        lengths.append(tf.shape(embedding_output if places is None else places)[1])
        x = tf.reshape(embedding_output, [-1, config.embedding_size])  # [B * T, E]
        if self.embedding_hidden_mapping_in is not None:
            x = self.embedding_hidden_mapping_in(x)  # [B * T, H]
        # Keep bfloat16 between blocks to halve the reading. The range of float16 is too small.
        low = self.compute_dtype == "bfloat16"
        x = tf.cast(x, tf.bfloat16 if low else tf.float32)
        run = self._recomputed if training and self._recompute else self._run
        blocks = [(*block, None) for block in blocks] + [(*last, places)]
        outputs = run(blocks, x, mask_adder, training)
        return [
            tf.cast(tf.reshape(output, [-1, length, config.hidden_size]), tf.float32)
            for output, length in zip(outputs, lengths, strict=True)
        ]

    def _run(self, blocks, x, mask_adder, training):
        outputs = []
        # Cast kernels once, not in each of the layers that share them.
        uses = collections.Counter(part for block in blocks for part in block[:2])
        tensors = {part: iter(part.tensors(count)) for part, count in uses.items()}
        for attention, ffn, places in blocks:
            kept = next(tensors[attention])
            x = attention(x, mask_adder, kept, training=training, places=places)
            x = ffn(x, next(tensors[ffn]), training=training)
            outputs.append(x)
        return outputs

    def _recomputed(self, blocks, x, mask_adder, training):
        parts = dict.fromkeys(part for block in blocks for part in block[:2])
        nested = [part.tensors()[0] for part in parts]

        def run(block, x, flat):
            tensors = dict(zip(parts, tf.nest.pack_sequence_as(nested, flat), strict=True))
            attention, ffn, places = block
            x = attention(x, mask_adder, tensors[attention], training=training, places=places)
            return ffn(x, tensors[ffn], training=training)

        runs = [functools.partial(run, block) for block in blocks]
        return recompute.run_blocks(runs, x, tf.nest.flatten(nested))

    def _of_checked_length(self, input_ids):
        length, limit = input_ids.shape[1], self.config.max_position_embeddings
        message = "the sequence is longer than max_position_embeddings:"
        if length is None:  # in a graph, such as an export's: known when it runs
            length = tf.shape(input_ids)[1]
            check = tf.debugging.Assert(length <= limit, [message, length, ">", limit])
            with tf.control_dependencies([check]):
                return tf.identity(input_ids)
        if length > limit:
            raise UserError(
                f"{message} {length} > {limit}. Shorten it, by --max_seq_length or by max_length "
                "of the tokenizer"
            )
        return input_ids
