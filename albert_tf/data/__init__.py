# SPDX-License-Identifier: Apache-2.0
"""Pre-training examples, TFRecords and the input pipelines that read them."""
