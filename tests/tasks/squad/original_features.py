# SPDX-License-Identifier: Apache-2.0
"""Our features of SQuAD in the form of the original's, to be compared with its metrics."""

from albert_tf.tasks.squad import features as squad_features

MODEL_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")


def original_features(features, tokenizer):
    """Yields the features as the dicts (InputFeatures) of the original, one per window.

    Args:
        features: Features.
        tokenizer: tokenization.FullTokenizer.
    """
    training = bool(features.labels)
    number = 0
    for batch in features.batches(1):
        row = int(batch["unique_ids"][0]) - squad_features.FIRST_UNIQUE_ID
        names = ("example_index", "span_start", "span_length", "window_offset")
        example, start, length, offset = (int(getattr(features, name)[row]) for name in names)
        number = number + 1 if start else 0
        paragraph = features.paragraph(example)
        label = {name: int(values[0]) for name, values in batch.items() if name in features.labels}
        yield {
            "unique_id": row + squad_features.FIRST_UNIQUE_ID,
            "example_index": None if training else example,
            "doc_span_index": number,
            "tok_start_to_orig_index": paragraph.starts[start : start + length].tolist(),
            "tok_end_to_orig_index": paragraph.ends[start : start + length].tolist(),
            "token_is_max_context": {
                offset + i: bool(features.max_context[row, i]) for i in range(length)
            },
            "tokens": tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist()),
            **{name: batch[name][0].tolist() for name in MODEL_INPUTS},
            "paragraph_len": offset + length + 1,
            "start_position": label.get("start_positions"),
            "end_position": label.get("end_positions"),
            "is_impossible": bool(label.get("is_impossible", False)),
        }
